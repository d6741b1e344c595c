"""The demonstration: what it writes, and that it never destroys a folder unasked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from click.testing import CliRunner

import asterism.report.demo as demo
from asterism.cli import main
from asterism.model.network import Network


def test_demo_writes_network_posterior_and_picture(tmp_path: Path) -> None:
    folder = demo.run_demo(tmp_path / "deep" / "RUN")
    assert sorted(p.name for p in folder.iterdir()) == [
        "network.json",
        "posterior.nc",
        "posterior.png",
    ]
    assert list(Network.load(folder / "network.json").nodes) == ["A", "B", "C", "D"]
    with xr.open_dataarray(folder / "posterior.nc", engine="h5netcdf") as marginals:
        values = marginals.values
    assert np.isfinite(values).all()
    np.testing.assert_allclose(values.sum(axis=-1), 1.0, atol=1e-10)
    assert (folder / "posterior.png").read_bytes().startswith(b"\x89PNG")


def test_existing_folder_is_kept_unless_forced(tmp_path: Path) -> None:
    folder = tmp_path / "RUN"
    folder.mkdir()
    (folder / "precious.txt").write_text("mine")
    refused = CliRunner().invoke(main, ["demo", "-o", str(folder)])
    assert refused.exit_code == 2
    assert "--force" in refused.output
    assert (folder / "precious.txt").read_text() == "mine"

    forced = CliRunner().invoke(main, ["demo", "-o", str(folder), "--force"])
    assert forced.exit_code == 0
    assert (folder / "network.json").is_file()
    assert not (folder / "precious.txt").exists()


def test_failure_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("the disk is full")

    monkeypatch.setattr(demo, "_draw", fail)
    with pytest.raises(RuntimeError, match="disk is full"):
        demo.run_demo(tmp_path / "RUN")
    assert list(tmp_path.iterdir()) == []
