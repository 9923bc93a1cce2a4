"""Random products, their exact results, and the error of a complete C."""
import random
import re
import shutil
import threading
from pathlib import Path

import h5py
import numpy as np

SHAPES = 24  # the number of products of a campaign, each created on first use
UNIT = {"f8": 2.0 ** -53, "f4": 2.0 ** -24}


def shape_of(number):
    return ("small", "deep", "small", "tall")[number % 4]


class Product:
    """The operands of one product in a file, and the bits of C from an undisturbed run on one rank."""

    def __init__(self, folder, number, seed):
        rng = random.Random(f"product {seed} {number}")
        shape = shape_of(number)
        self.m, self.n, self.k = (rng.randint(60, 300) for _ in range(3))
        if shape == "deep":  # many slabs per tile; in floats, a large rounding error
            self.m, self.n, self.k = rng.randint(16, 80), rng.randint(16, 80), rng.choice([3000, 20000])
        if shape == "tall":  # many tiles
            self.m, self.n = rng.randint(2500, 4000), rng.randint(80, 120)
        self.dtype = rng.choice(["f8", "f8", "f4"])
        self.trans = rng.choice(["NN", "NT", "TN", "TT"])
        self.alpha, self.beta = rng.choice([1, 1.5, -0.7]), rng.choice([0, 0, 0.5, -2])
        self.folder, self.number = Path(folder) / f"product{number}", number
        self.folder.mkdir(parents=True)
        self.source = self.folder / "input.h5"
        self.layout = rng.choice(["contiguous"] * 3 + ["chunks"])
        self._write(np.random.default_rng([seed, number]))

    def _write(self, numbers):
        m, n, k = self.m, self.n, self.k
        shapes = {"A": (k, m) if self.trans[0] == "T" else (m, k),
                  "B": (n, k) if self.trans[1] == "T" else (k, n), "C": (m, n)}
        with h5py.File(self.source, "w") as file:
            for name, shape in shapes.items():
                chunks = {"chunks": (min(32, shape[0]), min(48, shape[1]))} if self.layout == "chunks" else {}
                file.create_dataset(name, data=numbers.standard_normal(shape).astype(self.dtype), **chunks)

    def scalars(self):
        return ["--transa", self.trans[0], "--transb", self.trans[1], f"--alpha={self.alpha}",
                f"--beta={self.beta}", "--split-k", "off"]

    def element(self):
        return 4 if self.dtype == "f4" else 8

    def copy(self, folder):
        """Copy the file of the operands, with its times."""
        return Path(shutil.copy2(self.source, Path(folder) / "input.h5"))

    def read(self, source=None):
        """op(A), op(B) and C0 with the current contents of a file."""
        with h5py.File(source or self.source, "r") as file:
            a, b, c = (file[name][()] for name in "ABC")
        return a.T if self.trans[0] == "T" else a, b.T if self.trans[1] == "T" else b, c

    def exact(self, source=None):
        """The product in higher precision than C, and the sum of the magnitudes of its terms."""
        a, b, c = self.read(source)
        wide = np.longdouble if self.dtype == "f8" else np.float64
        alpha, beta = (np.dtype(self.dtype).type(x) for x in (self.alpha, self.beta))
        sums = alpha.astype(wide) * (a.astype(wide) @ b.astype(wide))
        terms = abs(self.alpha) * (np.abs(a).astype("f8") @ np.abs(b).astype("f8"))
        if self.beta:
            sums = sums + beta.astype(wide) * c.astype(wide)
            terms = terms + abs(self.beta) * np.abs(c).astype("f8")
        return sums, terms


class Products:
    """The products of a campaign and their references, each created once, on first use."""

    def __init__(self, folder, seed, reference):
        self.folder, self.seed, self.reference = folder, seed, reference
        self.made, self.locks = {}, [threading.Lock() for _ in range(SHAPES)]

    def __getitem__(self, number):
        with self.locks[number]:
            if number not in self.made:
                product = Product(self.folder, number, self.seed)
                product.bits = self.reference(product)
                sums, terms = product.exact()
                assert np.all(np.abs(product.bits - sums) <= rounding(product, terms)), "a wrong reference"
                self.made[number] = product
            return self.made[number]


def rounding(product, terms):
    """An upper bound on the rounding error of each element: 64 k u |A||B|."""
    return 64 * (product.k + 3) * UNIT[product.dtype] * terms


def detectable(product, said, source=None):
    """The error in each row that the run reports it would have detected (src/run/findings.h); infinite when
    it reports that C was not checked."""
    found = re.search(r"RESULT: .*checked to ([\d.e+-]+) of a typical element: PASSED", said)
    if not found:
        return np.inf
    a, b, _ = (x.astype("f8") for x in product.read(source))
    typical = np.linalg.norm(a @ b, axis=1) / np.sqrt(b.shape[1])  # over a whole row, not one tile's part
    return 2 * abs(product.alpha) * float(found[1]) * typical[:, np.newaxis]


def difference(product, c, said, source=None):
    """How C differs from the exact product: whether by so much that a run that PASSED must have detected
    it, and the largest error relative to a typical element."""
    sums, terms = product.exact(source)
    error = np.abs(c - sums).astype("f8")
    typical = float(np.sqrt(np.mean(sums.astype("f8") ** 2)))
    if not np.all(np.isfinite(error)):
        return True, np.inf
    limit = np.maximum(rounding(product, terms), np.minimum(detectable(product, said, source), typical))
    return bool(np.any(error > limit)), float(error.max() / typical)
