"""Watches of what really changes: nothing lost, nothing doubled, in one order for all who look."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import islice

from tests.contract.asking import Asker, Object, indexed, job
from tests.contract.living import SUCCEEDS, conditions, ended, is_over, pods_of, runs
from tests.contract.test_api_protocol import config_map, version_of

LAST = "the-last"


def told(event: Object) -> tuple[str, str, str]:
    metadata = event["object"]["metadata"]
    return event["type"], metadata["name"], metadata["resourceVersion"]


def until_the_last(api: Asker, path: str, version: str, at_once: int | None = None) -> list[Object]:
    """Watch until the object LAST goes; with `at_once` open the watch anew after so many events."""
    seen: list[Object] = []
    while True:
        with api.watching(path, resourceVersion=version, timeoutSeconds=20) as events:
            for event in islice(events, at_once):
                assert event["type"] != "ERROR", event
                seen.append(event)
                version = event["object"]["metadata"]["resourceVersion"]
                if event["type"] == "DELETED" and event["object"]["metadata"]["name"] == LAST:
                    return seen


def change_much(api: Asker, path_of: list[str]) -> None:
    for name in path_of:
        api.have("configmaps", config_map(name))
        for round_ in range(4):
            api.merge(api.core("configmaps", name), {"data": {"round": str(round_)}})
        api.ask("DELETE", api.core("configmaps", name))


def test_81_watches_that_break_off_see_all_that_one_sees_that_does_not(api: Asker) -> None:
    path = api.core("configmaps")
    version = version_of(api, path)
    names = [[f"{writer}-{number}" for number in range(8)] for writer in "abc"]
    with ThreadPoolExecutor() as pool:
        watchers = [
            pool.submit(until_the_last, api, path, version, at_once) for at_once in (None, None, 1, 7)
        ]
        writers = [pool.submit(change_much, api, some) for some in names]
        for writer in writers:
            writer.result(60)
        api.have("configmaps", config_map(LAST))
        api.ask("DELETE", api.core("configmaps", LAST))
        whole, *others = [watcher.result(60) for watcher in watchers]

    want = [told(event) for event in whole]
    for seen in others:
        assert [told(event) for event in seen] == want
    versions = [int(version) for _, _, version in want]
    assert versions == sorted(set(versions))
    for name in (name for some in names for name in some):
        kinds = [kind for kind, whose, _ in want if whose == name]
        assert kinds == ["ADDED", "MODIFIED", "MODIFIED", "MODIFIED", "MODIFIED", "DELETED"]


def test_a_jobs_whole_life_is_told_in_order(api: Asker) -> None:
    version = version_of(api, api.jobs())
    with api.watching(api.jobs(), resourceVersion=version, timeoutSeconds=60) as events:
        api.have_job(indexed(completions=2, parallelism=2, pod=runs("sh", "-c", "sleep 5")))
        seen = [next(events)]
        while not is_over(seen[-1]["object"]):
            seen.append(next(events))
        api.ask("DELETE", api.jobs("j"), {"propagationPolicy": "Background"})
        seen += islice(events, 1)

    assert [event["type"] for event in seen] == ["ADDED", *["MODIFIED"] * (len(seen) - 2), "DELETED"]
    statuses = [event["object"]["status"] for event in seen]
    assert statuses[0] == {}
    assert (statuses[1]["active"], statuses[1]["ready"]) == (2, 0)
    assert statuses[1]["startTime"]
    done = [status.get("succeeded", 0) for status in statuses]
    assert done == sorted(done)
    assert max(status.get("ready", 0) for status in statuses) == 2
    met = next(event["object"] for event in seen if conditions(event["object"]))
    assert conditions(met) == [("SuccessCriteriaMet", "CompletionsReached")]
    assert met["status"]["completedIndexes"] == "0,1"
    assert "completionTime" not in met["status"]
    assert conditions(seen[-1]["object"])[-1] == ("Complete", "CompletionsReached")


def test_a_pods_whole_life_is_told_in_order(api: Asker) -> None:
    path = api.core("pods")
    version = version_of(api, path)
    with api.watching(path, resourceVersion=version, timeoutSeconds=60) as events:
        api.have_job(job(pod=runs("sh", "-c", "sleep 1")))
        seen = [next(events)]
        while seen[-1]["object"]["status"]["phase"] != "Succeeded" or seen[-1]["object"]["metadata"].get(
            "finalizers"
        ):
            seen.append(next(events))
        api.ask("DELETE", api.jobs("j"), {"propagationPolicy": "Background"})
        while seen[-1]["type"] != "DELETED":
            seen.append(next(events))

    phases = [event["object"]["status"]["phase"] for event in seen]
    assert list(dict.fromkeys(phases)) == ["Pending", "Running", "Succeeded"]
    assert phases == sorted(phases, key=["Pending", "Running", "Succeeded"].index)
    assert [event["type"] for event in seen][1:-1] == ["MODIFIED"] * (len(seen) - 2)
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in seen]
    assert versions == sorted(set(versions))
    first_on_a_node = next(event["object"] for event in seen if event["object"]["spec"].get("nodeName"))
    assert first_on_a_node["status"]["phase"] == "Pending"


def test_77_a_foreground_deletion_is_told_step_by_step(api: Asker) -> None:
    created = api.have_job(job(pod=runs(*SUCCEEDS)))
    ended(api)
    version = version_of(api, api.jobs())
    with api.watching(api.jobs(), resourceVersion=version, timeoutSeconds=30) as events:
        api.ask("DELETE", api.jobs("j"), {"propagationPolicy": "Foreground"})
        seen = [next(events)]
        while seen[-1]["type"] != "DELETED":
            seen.append(next(events))

    first, last = seen[0], seen[-1]
    assert first["type"] == "MODIFIED"
    assert first["object"]["metadata"]["deletionTimestamp"]
    assert first["object"]["metadata"]["finalizers"] == ["foregroundDeletion"]
    assert last["object"]["metadata"]["uid"] == created["metadata"]["uid"]
    assert pods_of(api) == []


def test_a_bookmark_names_a_version_to_go_on_from(api: Asker) -> None:
    path = api.core("configmaps")
    version = version_of(api, path)
    api.have("configmaps", config_map("a", mine="no"))

    with api.watching(
        path, resourceVersion=version, labelSelector="mine=yes", allowWatchBookmarks="true", timeoutSeconds=5
    ) as events:
        seen = list(events)

    assert seen, "a bookmark comes shortly before the time is over"
    assert {event["type"] for event in seen} == {"BOOKMARK"}
    last = seen[-1]["object"]
    assert (last["kind"], last["apiVersion"]) == ("ConfigMap", "v1")
    assert set(last["metadata"]) <= {"resourceVersion", "creationTimestamp"}
    api.have("configmaps", config_map("b", mine="yes"))
    with api.watching(
        path, resourceVersion=last["metadata"]["resourceVersion"], labelSelector="mine=yes"
    ) as events:
        assert told(next(events))[:2] == ("ADDED", "b")


def test_without_being_allowed_no_bookmark_comes(api: Asker) -> None:
    path = api.core("configmaps")

    with api.watching(path, resourceVersion=version_of(api, path), timeoutSeconds=3) as events:
        assert list(events) == []


def test_82_a_version_from_before_all_that_is_known_is_expired(api: Asker) -> None:
    """Not as described: a real server keeps the past of most kinds in memory.

    410 comes for kinds that it does not, as events, once its database has been compacted.
    """

    def first_event() -> Object | None:
        with api.watching(api.core("events"), resourceVersion=1, timeoutSeconds=1) as events:
            event = next(events, None)
        return event if event is not None and event["type"] == "ERROR" else None

    status = api.eventually(first_event, seconds=100)["object"]

    assert (status["kind"], status["code"], status["reason"]) == ("Status", 410, "Expired")
