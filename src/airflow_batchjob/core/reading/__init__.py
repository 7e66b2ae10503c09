"""What the API returned: Jobs and pods as frozen values, and what they say."""
