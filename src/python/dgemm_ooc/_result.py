"""What a call returns: where C is, and how the run went."""
from __future__ import annotations

import html
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Dict, Iterator, Optional

import h5py
import numpy as np

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

_FRAME = ('<iframe srcdoc="{}" sandbox="allow-scripts" '
          'style="width: 100%; height: 700px; border: 0"></iframe>')


def is_npy(file: str) -> bool:
    """Whether the name of a file says that it is one array of NumPy."""
    return file.lower().endswith(".npy")


class Result:
    """A product that is complete.

    `path` is where C is, as "FILE.h5:/C" or "FILE.npy".  `report` is what the program reports, as man dgemm_ooc
    describes it.  If the operands were arrays and no `out` was given, C is in a temporary file.
    That is removed with this object.
    """

    def __init__(self, path: str, report: Dict[str, Any], page: str = "", kept: Any = None) -> None:
        self.path = path
        self.report = report
        self._page = page
        self._kept = kept

    @contextmanager
    def open(self) -> Iterator[Any]:
        """C as a dataset of h5py, or as the array of a .npy file, in a `with` statement."""
        if is_npy(self.path):
            yield self.array
            return
        file, dataset = self.path.rsplit(":/", 1)
        with h5py.File(file, "r") as opened:
            yield opened["/" + dataset]

    def beside(self, what: str) -> NDArray[Any]:
        """What lies beside C in its file of HDF5, read into memory: "mean", "deviation", "ab"."""
        file, dataset = self.path.rsplit(":/", 1)
        with h5py.File(file, "r") as opened:
            values: NDArray[Any] = opened[f"/{dataset}_{what}"][()]
        return values

    @property
    def array(self) -> NDArray[Any]:
        """C, mapped from its file: nothing is copied, and nothing can be written."""
        if is_npy(self.path):
            array: NDArray[Any] = np.load(self.path, mmap_mode="r")
            return array
        with self.open() as data:
            dtype, shape, offset = data.dtype, data.shape, data.id.get_offset()
        if dtype.names:  # complex numbers under the names of another language
            dtype = np.dtype(f"c{dtype.itemsize}")
        return np.memmap(self.path.rsplit(":/", 1)[0], dtype, "r", offset, shape)

    @property
    def seconds(self) -> float:
        """Until C was on the disk, or was checked, without the start; 0 if it was there already."""
        return float(self.report.get("wall_s", self.report.get("full_check", {}).get("busy_s", 0)))

    @property
    def verdict(self) -> Optional[str]:
        """PASSED or NOT CHECKED; None: without a check."""
        about = self.report.get("full_check", {}) if "verdict" not in self.report else self.report
        verdict = about.get("verdict")
        return None if verdict is None else str(verdict)

    def __array__(self, dtype: Optional[DTypeLike] = None,
                  copy: Optional[bool] = None) -> NDArray[Any]:
        array = self.array
        if copy or dtype is not None and dtype != array.dtype:
            return np.array(array, dtype)
        return array

    def __repr__(self) -> str:
        c = self.report["matrices"]["C"]
        how = (f"{self.seconds:.2f} s, {self.verdict or 'without a check'}" if self.seconds else
               "made earlier")
        return f"<dgemm_ooc.Result {self.path}, {c['rows']}x{c['cols']}, {how}>"

    def _repr_html_(self) -> Optional[str]:
        """The page of the run in a frame, about 80 kB; none if nothing was computed."""
        return _FRAME.format(html.escape(self._page)) if self._page else None


class Plan:
    """What a run would do: `text` is the plan in words, `report` has its numbers."""

    def __init__(self, text: str, report: Dict[str, Any]) -> None:
        self.text = text
        self.report = report

    @property
    def seconds(self) -> float:
        """The predicted time of the product, without the start of the program."""
        return float(self.report["predicted"]["wall_s"])

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        predicted = self.report["predicted"]
        return f"<dgemm_ooc.Plan {self.seconds:.3g} s, limited by {predicted['limit']}>"
