"""Manifest files and Jinja: what a file name is, where it is sought, and errors that name the line.

Airflow's own `template_ext` is not used: it would take every argument of a command that ends in
".yaml" for a file to read, and leaves a missing one for later.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from airflow_batchjob.core.errors import Problem, SpecError
from airflow_batchjob.core.request.early import is_templated
from airflow_batchjob.core.request.loading import load_manifest
from airflow_batchjob.core.request.plain import plain
from airflow_batchjob.core.request.variables import substitute

if TYPE_CHECKING:
    import jinja2
    from airflow.sdk import Context

    from airflow_batchjob.operators.batchjob import BatchJobOperator

_SUFFIXES = (".yaml", ".yml", ".json")
_OF_LOGICAL_DATE = (
    "ds",
    "ds_nodash",
    "ts",
    "ts_nodash",
    "ts_nodash_with_tz",
    "logical_date",
    "data_interval_start",
    "data_interval_end",
)
_NO_DATE = "Trigger it with --logical-date (logical_date in the API), or use run_id or dag_run.run_after"
_RAW = "Put {% raw %} and {% endraw %} around what Jinja must leave alone"


def is_file_name(manifest: object) -> bool:
    """Tell a manifest's file name from a manifest's text: one line, and not YAML with a key in it.

    What still has Jinja in it is neither yet.
    """
    if isinstance(manifest, os.PathLike):
        return True
    if not isinstance(manifest, str):
        return False
    text = manifest.strip()
    if not text or "\n" in text or is_templated(text):
        return False
    return text.endswith(_SUFFIXES) or not (text.startswith("{") or ": " in text or text.endswith(":"))


def read_file(name: str, env: jinja2.Environment) -> str:
    """Return the text of a manifest file, not rendered; sought as Airflow seeks templates.

    Args:
        name: Relative to the DAG's folder or a `template_searchpath`, or absolute.
        env: The DAG's Jinja environment, which knows these folders.

    Raises:
        SpecError: There is no such file; names every folder that was searched.
    """
    import jinja2

    if Path(name).is_absolute():
        try:
            return Path(name).read_text(encoding="utf-8")
        except OSError as error:
            raise _not_found(name, f"it can't be read ({error.strerror})") from error
    folders = search_path(env)
    if env.loader is None:
        raise _not_found(name, "no folder to search is known (the task belongs to no DAG)")
    try:
        return env.loader.get_source(env, name)[0]
    except (jinja2.TemplateNotFound, OSError) as error:
        raise _not_found(name, f"no such file in {', '.join(folders) or 'the folders of the DAG'}") from error


def render_file(name: str, env: jinja2.Environment, context: Mapping[str, Any]) -> str:
    """Return a manifest file's text, rendered with the task's context.

    Raises:
        SpecError: The file is not found, or is no valid Jinja template; names the line.
    """
    text = read_file(name, env)
    with explained("manifest", name, context=context):
        return str(env.from_string(text).render(**context))


def stated_namespace(given: BatchJobOperator, context: Context) -> str | None:
    """Return the namespace that an operator's parameters or its manifest name, rendered for `context`."""
    env = given.get_template_env(given.dag)
    namespace, manifest, variables = (
        given.render_template(value, context, env)
        for value in (given.namespace, given.manifest, given.variables)
    )
    if not namespace and is_file_name(manifest):
        manifest = render_file(os.fspath(manifest), env, context)
    return namespace or namespace_in(manifest, variables or {})


def namespace_in(manifest: Any, variables: Mapping[str, Any]) -> str | None:
    """Return the namespace that a rendered manifest names, if it can be read."""
    try:
        tree = load_manifest(manifest, partial=True) if isinstance(manifest, str) else plain(manifest)
        found = substitute((tree or {}).get("metadata") or {}, variables).get("namespace")
    except (SpecError, AttributeError):  # its own task will say what is wrong with it
        return None
    return str(found) if found else None


def search_path(env: jinja2.Environment) -> list[str]:
    """Return the folders in which Airflow seeks this DAG's templates."""
    return [str(folder) for folder in getattr(env.loader, "searchpath", ())]


@contextmanager
def explained(
    field: str, file: str | None = None, *, value: Any = None, context: Mapping[str, Any] | None = None
) -> Iterator[None]:
    """Turn Jinja's errors into one that names field, line and mend.

    Args:
        field: The parameter that is rendered.
        file: The file that it names.
        value: The parameter as written, where it is no file.
        context: What the template could use.
    """
    import jinja2

    where = f"the template {file}" if file else "the template"
    written = file or value
    try:
        yield
    except jinja2.TemplateSyntaxError as error:
        why = f"line {error.lineno} of {where} is not Jinja: {error.message}"
        raise SpecError(Problem(field, _line_of(error), why, _RAW)) from error
    except jinja2.TemplateNotFound as error:
        why = f"{where} includes {error.name!r}, which is not found"
        mend = "Put that file there, or name its folder in the DAG's template_searchpath"
        raise SpecError(Problem(field, written, why, mend)) from error
    except jinja2.UndefinedError as error:
        raise SpecError(_undefined(field, written, where, error, context or {})) from error


def _undefined(
    field: str, written: Any, where: str, error: jinja2.UndefinedError, context: Mapping[str, Any]
) -> Problem:
    name = next((name for name in _OF_LOGICAL_DATE if f"'{name}'" in (error.message or "")), None)
    if name is not None and context.get("logical_date") is None:
        why = f"{where} uses {name!r}, and this run has no logical date"
        return Problem(field, written, why, _NO_DATE)
    why = f"{where} uses a name that is not defined: {error.message}"
    mend = "Define it, for instance in params, or give it a default with | default(…)"
    return Problem(field, written, why, mend)


def _line_of(error: jinja2.TemplateSyntaxError) -> str:
    lines = (error.source or "").splitlines()
    return lines[error.lineno - 1].strip() if 0 < error.lineno <= len(lines) else ""


def _not_found(name: str, why: str) -> SpecError:
    mend = (
        "Put the file there, name its folder in the DAG's template_searchpath, or give the manifest as a dict"
    )
    return SpecError(Problem("manifest", name, why, mend))


def finish(given: BatchJobOperator, jinja_env: jinja2.Environment, context: Context) -> None:
    """Render the manifest's file, then have Airflow mask secrets before rendered fields or logs show them.

    A manifest that is a mapping becomes text: Airflow masks mappings to some depth only, and a
    container's environment lies deeper.
    """
    from airflow_batchjob.core.request.writing import write_yaml
    from airflow_batchjob.operators.masking import mask

    if is_file_name(given.manifest):
        given.manifest = render_file(os.fspath(given.manifest), jinja_env, context)
    mask(given)
    if isinstance(given.manifest, Mapping):
        with suppress(yaml.YAMLError, RecursionError):  # whoever builds the Job says what is wrong
            given.manifest = write_yaml(plain(given.manifest))
