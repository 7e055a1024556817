"""`vgpu ui --open`: what other users of the machine can see of it."""

from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pytest
from pytest_mock import MockerFixture

from device_plugin.cli.ui.browser import opened

ADDRESS = "http://127.0.0.1:40123/#token=secret"


@pytest.mark.parametrize("there", [True, False])
def test_the_token_is_in_a_file_of_ones_own_and_on_no_command_line(
    mocker: MockerFixture, *, there: bool
) -> None:
    run = mocker.patch("webbrowser.open", return_value=there)
    with opened(ADDRESS) as found:
        assert found == there
        ((given,), _) = run.call_args
        file = Path(url2pathname(urlsplit(given).path))
        assert "secret" not in given
        assert f'content="0;url={ADDRESS}"' in file.read_text()
        assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert not file.parent.exists()
