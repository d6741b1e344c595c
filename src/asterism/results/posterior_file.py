"""``posterior.nc``: state probabilities over time, as netCDF.

The HDF5 library ends the whole process when a disk is full or a file is damaged in the wrong place.
So it only ever writes to memory, and reads from memory what is known to be whole; a file that
nobody vouches for is tried out in another process first.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asterism.data.files import write_bytes
from asterism.errors import DataError
from asterism.numerics.child_process import ChildFailed, limit_this_process, parse_in_child

if TYPE_CHECKING:
    import xarray


def write_posterior(path: Path, data: xarray.Dataset) -> None:
    """Atomically; the probabilities are compressed."""
    import h5netcdf
    from xarray.backends import H5NetCDFStore

    buffer = io.BytesIO()
    with _without_cluster(), h5netcdf.File(buffer, "w") as file:
        data.dump_to_store(
            H5NetCDFStore(file), encoding={"probability": {"zlib": True, "complevel": 4}}
        )
    write_bytes(path, buffer.getvalue())


def read_posterior(path: Path, verified: bool) -> xarray.Dataset | None:
    """The data set, or None where there is no file."""
    if not path.is_file():
        return None
    content = path.read_bytes()
    if not verified:
        try:
            parse_in_child("asterism.results.posterior_file", content)
        except ChildFailed as problem:
            raise DataError(f"Cannot read {str(path)!r}: {problem}.") from None
    try:
        return _parse(content)
    except MemoryError:
        raise
    except Exception as problem:  # h5py, h5netcdf and xarray raise many kinds
        raise DataError(f"Cannot read {str(path)!r}: {problem}.") from None


def _parse(content: bytes) -> xarray.Dataset:
    import xarray

    with xarray.open_dataset(io.BytesIO(content), engine="h5netcdf") as data:
        return data.load()


@contextmanager
def _without_cluster() -> Iterator[None]:
    """xarray asks dask how to write even plain arrays, and a cluster may be gone by now."""
    dask: Any = sys.modules.get("dask")
    if dask is None:
        yield
        return
    with dask.config.set(scheduler="synchronous"):
        yield


if __name__ == "__main__":
    limit_this_process()
    try:
        _parse(sys.stdin.buffer.read())
    except Exception as problem:
        sys.exit(str(problem) or type(problem).__name__)
