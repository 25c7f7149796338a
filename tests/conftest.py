"""Options of the test run."""

import pytest


def pytest_addoption(parser):
    parser.addoption("--full", action="store_true", help="judge every mutant instead of a seeded sample")


@pytest.fixture
def mutants_a_theorem(request):
    """How many mutants to judge per theorem; None for all."""
    return None if request.config.getoption("--full") else 15
