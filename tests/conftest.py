"""Settings that every test shares."""

from hypothesis import HealthCheck, settings

pytest_plugins = [
    "tests.chromium_browser",
    "tests.docker_daemon",
    "tests.engine.container_image",
    "tests.two_workers",
]

# A shared, slow machine must not decide a property: no deadline, no complaint about slow draws; and the same examples
# every time, so that a red run can be repeated.
settings.register_profile("here", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("here")
