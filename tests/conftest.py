"""Options of the test run. Hypothesis draws the same examples every time, so a failure repeats itself."""

import pytest
from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")


def pytest_addoption(parser):
    parser.addoption("--full", action="store_true", help="judge every mutant instead of a seeded sample")


@pytest.fixture
def mutants_a_theorem(request):
    """How many mutants to judge per theorem; None for all."""
    return None if request.config.getoption("--full") else 15
