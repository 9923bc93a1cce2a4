"""Random products of every kind, in files of every layout, their exact results, and the error of a complete C."""
import copy
import functools
import random
import re
import shutil
import threading
from pathlib import Path

import h5py
import numpy as np

KINDS = ("general", "symmetric", "lower", "cov", "cor", "gram", "integers", "complex", "hermitian", "residues")
SHAPES = 40  # the number of products of a campaign, each created on first use: every kind in every shape
MIRRORED = {"symmetric", "lower", "cov", "cor", "gram", "hermitian"}
STATISTICS = {"cov", "cor", "gram"}
TYPES = {"integers": ["i1", "u1", "i2", "u2", "i4"], "complex": ["c16", "c8"], "hermitian": ["c16", "c8"]}
LAYOUTS = ["contiguous"] * 4 + ["chunks"] * 2 + ["swapped", "virtual", "external"]
UNIT = {"f8": 2.0 ** -53, "f4": 2.0 ** -24, "c16": 2.0 ** -53, "c8": 2.0 ** -24}
BESIDE = "input.d"  # the folder of what a file of operands refers to
TALL_MIRROR = 500  # rows of a C that is square


def shape_of(number):
    return ("small", "deep", "small", "tall")[number % 4]


def kind_of(number):
    return KINDS[number % len(KINDS)]


class Product:
    """The operands of one product in a file, and the bits of C from an undisturbed run on one rank."""

    def __init__(self, folder, number, seed, shape=None, values=("normal",)):
        rng = random.Random(f"product {seed} {number}")
        self.kind, self.number, self.bits = kind_of(number), number, None
        self.mirrored = self.kind in MIRRORED
        self._draw_shape(rng, shape or shape_of(number))
        self.dtype = rng.choice(TYPES.get(self.kind, ["f8", "f8", "f4"]))
        self.layout, self.values = rng.choice(LAYOUTS), rng.choice(values)
        self.trans, self.center, self.scale, self.missing = self._draw_orientation(rng)
        self.alpha, self.beta = self._draw_scalars(rng)
        self.names = "A" + "B" * (not self.mirrored) + "C" * (self.beta != 0)
        self.moduli = rng.choice(["", ":16"]) if self.dtype == "f8" else rng.choice(["", ":9"])
        self.folder = Path(folder) / f"product{number}"
        self.source = self.folder / "input.h5"
        (self.folder / BESIDE).mkdir(parents=True)
        numbers = np.random.default_rng([seed, number])
        self._write({name: self._numbers(numbers, shape) for name, shape in self._shapes().items()}, rng.random())

    def _draw_shape(self, rng, shape):
        self.m, self.n, self.k = (rng.randint(60, 300) for _ in range(3))
        if shape == "deep":  # many slabs per tile; in floats, a large rounding error
            self.m, self.n, self.k = rng.randint(16, 80), rng.randint(16, 80), rng.choice([3000, 20000])
        if shape == "tall":  # many tiles
            self.m, self.n = rng.randint(2500, 4000), rng.randint(80, 120)
            self.m = rng.randint(300, TALL_MIRROR) if self.mirrored else self.m
        if shape == "large":  # larger than a limit of memory
            self.m, self.n, self.k = (rng.randint(700, 2500) for _ in range(3))
        self.n = self.m if self.mirrored else self.n

    def _draw_orientation(self, rng):
        """op(A) and op(B), the lines of A that are centred and scaled, and what is put for NaN."""
        if not self.mirrored:
            letters = "NTC" if self.kind == "complex" else "NT"
            return rng.choice(letters) + rng.choice(letters), "none", "none", "error"
        turned = "C" if self.kind == "hermitian" else "T"
        trans = rng.choice(["N" + turned, turned + "N"])
        if self.kind in ("cov", "cor"):
            line = "rows" if trans[0] == "N" else "cols"
            return trans, line, line if self.kind == "cor" else "none", rng.choice(["error", "mean"])
        if self.kind == "gram":
            line = rng.choice(["rows", "cols"])
            return trans, line, rng.choice(["none", line]), rng.choice(["error", "mean"])
        return trans, "none", "none", "error"

    def _draw_scalars(self, rng):
        alpha, beta = rng.choice([1, 1.5, -0.7]), rng.choice([0, 0, 0.5, -2])
        if self.kind in ("cov", "cor"):
            return 1, 0
        if self.kind == "integers":
            return rng.choice([1, 2, -3]), rng.choice([0, 0, 1, -2])
        return alpha, 0 if self.kind == "gram" else beta

    def _numbers(self, numbers, shape):
        """A matrix of random numbers: of the same size, whole, or in units that differ from column to column."""
        if self.kind == "integers":
            most = min(np.iinfo(self.dtype).max, 30000)
            return numbers.integers(max(np.iinfo(self.dtype).min, -most), most, shape).astype(self.dtype)
        x = numbers.standard_normal(shape)
        if self.values == "whole":
            x = numbers.integers(-4, 5, shape).astype("f8")
        if self.values == "units":
            x *= 10.0 ** numbers.integers(-4, 5, shape[1])
        if self.kind in STATISTICS:
            x += 2
        if self.dtype[0] == "c":
            x = x + 1j * numbers.standard_normal(shape)
        if self.missing == "mean":
            x[numbers.random(shape) < 0.01] = np.nan
        return x.astype(self.dtype)

    def _shapes(self):
        m, n, k = self.m, self.n, self.k
        shapes = {"A": (m, k) if self.trans[0] == "N" else (k, m),
                  "B": (k, n) if self.trans[1] == "N" else (n, k), "C": (m, n)}
        return {name: shapes[name] for name in self.names}

    def _write(self, matrices, form):
        self.form, rng = form, random.Random(form)
        with h5py.File(self.source, "w") as file:
            for name, x in matrices.items():
                self._store(file, name, x.astype("i8") if name == "C" and self.kind == "integers" else x, rng)

    def twin(self, folder, seed=None, backwards=False):
        """The same product of other numbers, or with the matrices in another order, in the same form."""
        other = copy.copy(self)
        other.folder, other.source = Path(folder), Path(folder) / "input.h5"
        (other.folder / BESIDE).mkdir(parents=True, exist_ok=True)
        numbers, names = np.random.default_rng(seed), self.names[::-1] if backwards else self.names
        other._write({name: self.stored(name) if seed is None else self._numbers(numbers, self._shapes()[name])
                      for name in names}, self.form)
        return other

    def _store(self, file, name, x, rng):
        if self.layout == "swapped":
            file.create_dataset(name, data=x, dtype=x.dtype.newbyteorder(">"))
        elif self.layout == "chunks":
            file.create_dataset(name, data=x, **random_chunks(rng, x.shape))
        elif self.layout == "external":
            x.tofile(self.folder / BESIDE / f"{name}.raw")
            file.create_dataset(name, x.shape, x.dtype, external=[(f"{BESIDE}/{name}.raw", 0, x.nbytes)])
        elif self.layout == "virtual":
            self._store_virtual(file, name, x, rng)
        else:
            file[name] = x

    def _store_virtual(self, file, name, x, rng):
        """A virtual dataset of bands of rows, each in a file of its own."""
        layout, ends = h5py.VirtualLayout(x.shape, x.dtype), np.linspace(0, len(x), rng.choice([3, 4, 9]), dtype=int)
        for i, (begin, end) in enumerate(zip(ends, ends[1:])):
            band = f"{BESIDE}/{name}{i}.h5"
            with h5py.File(self.folder / band, "w") as source:
                chunked = rng.random() < 0.5
                source.create_dataset("X", data=x[begin:end],
                                      **random_chunks(rng, (end - begin, x.shape[1])) if chunked else {})
            layout[begin:end] = h5py.VirtualSource(band, "X", (end - begin, x.shape[1]))
        file.create_virtual_dataset(name, layout)

    def scalars(self):
        """The options that make this product of the file."""
        scaled = [f"--alpha={self.alpha}", f"--beta={self.beta}"]
        if self.kind in STATISTICS:
            return ["--product", self.kind, "--transa", self.trans[0], "--nan", self.missing,
                    *(["--center", self.center, "--scale", self.scale, *scaled[:1]] if self.kind == "gram" else [])]
        trans = ["--transa", self.trans[0], "--transb", self.trans[1]]
        if self.mirrored:
            return ["-b", "A", *trans, *scaled, "--symmetric", "lower" if self.kind == "lower" else "on"]
        return [*trans, *scaled, *([f"--algo=ozaki{self.moduli}"] if self.kind == "residues" else [])]

    def element(self):
        return 8 if self.kind == "integers" else np.dtype(self.dtype).itemsize

    def copy(self, folder):
        """Copy the file of the operands, with its times, and what it refers to."""
        shutil.copytree(self.source.parent / BESIDE, Path(folder) / BESIDE, dirs_exist_ok=True)
        return Path(shutil.copy2(self.source, Path(folder) / "input.h5"))

    def stored(self, name, source=None):
        """A matrix as a file has it now."""
        source = source or self.source
        with h5py.File(source, "r") as file:
            shape, dtype = file[name].shape, file[name].dtype
            if self.layout != "external":
                return file[name][()].astype(dtype.newbyteorder("="))
        return np.fromfile(source.parent / BESIDE / f"{name}.raw", dtype).reshape(shape)

    def read(self, source=None):
        """op(A), op(B) and C0 with the current contents of a file; C0 is None without beta."""
        a = self.stored("A", source)
        b = a if self.mirrored else self.stored("B", source)
        return turned(a, self.trans[0]), turned(b, self.trans[1]), self.stored("C", source) if self.beta else None

    def _wide(self):
        if self.kind == "integers":
            return np.int64
        wide = np.longdouble if UNIT[self.dtype] < 1e-10 else np.float64
        return np.result_type(wide, np.complex64) if self.dtype[0] == "c" else wide

    def _factors(self, source):
        """op(A) and op(B) in higher precision than C, and magnitudes that bound what rounding is relative to."""
        wide = self._wide()
        if self.kind not in STATISTICS:
            a, b, _ = self.read(source)
            return a.astype(wide), b.astype(wide), magnitude(a), magnitude(b)
        z, size = standardized(self.stored("A", source).astype(wide), self.center, self.scale)
        return (*(turned(z, letter) for letter in self.trans), *(turned(size, letter) for letter in self.trans))

    @functools.lru_cache(maxsize=None)
    def of_source(self):
        """The product of the operands as they were written."""
        return self._multiply(self.source)

    def product(self, source=None):
        """alpha op(A) op(B) in higher precision, and the sum of the magnitudes of its terms."""
        return self._multiply(source) if source else self.of_source()

    def _multiply(self, source):
        a, b, size_a, size_b = self._factors(source)
        divisor = self.k - 1 if self.kind in ("cov", "cor") else 1
        alpha = self.alpha if self.kind == "integers" else np.dtype(self.dtype).type(self.alpha).astype(self._wide())
        sums, terms = alpha * (a @ b), abs(self.alpha) * (size_a @ size_b)
        return (sums / divisor, terms / divisor) if divisor > 1 else (sums, terms)

    def exact(self, source=None):
        """C in higher precision, and the sum of the magnitudes of its terms."""
        sums, terms = self.product(source)
        if self.beta:
            c = self.stored("C", source)
            beta = self.beta if self.kind == "integers" else np.dtype(self.dtype).type(self.beta)
            sums, terms = sums + beta * c.astype(self._wide()), terms + abs(self.beta) * magnitude(c)
        return (np.tril(sums), np.tril(terms)) if self.kind == "lower" else (sums, terms)


def random_chunks(rng, shape):
    """Chunks of any form, and filters that the program undoes itself or leaves to the library."""
    sides = [min(rng.choice([16, 32, 48, 500, 4000]), side) for side in shape]
    return {"chunks": tuple(sides), "compression": rng.choice([None, "gzip"]), "shuffle": rng.random() < 0.5,
            "fletcher32": rng.random() < 0.2}


def turned(x, letter):
    return x if letter == "N" else x.T.conj() if letter == "C" else x.T


def magnitude(x):
    return np.abs(x.astype("c16" if x.dtype.kind == "c" else "f8"))


def standardized(x, center, scale):
    """A with means for NaN, centred and scaled, and the sizes of the numbers of which that is the difference."""
    axis = 1 if "rows" in (center, scale) else 0
    mean = np.nanmean(x, axis=axis, keepdims=True)
    x = np.where(np.isnan(x), mean, x)
    z, size = (x - mean, np.abs(x) + np.abs(mean)) if center != "none" else (x, np.abs(x))
    if scale != "none":
        deviation = x.std(axis=axis, ddof=1, keepdims=True)
        deviation = np.where(deviation == 0, 1, deviation)
        z, size = z / deviation, size / deviation
    return z, size.astype("f8")


class Products:
    """The products of a campaign and their references, each created once, on first use."""

    def __init__(self, folder, seed, reference, **how):
        self.folder, self.seed, self.reference, self.how = folder, seed, reference, how
        self.made, self.locks = {}, [threading.Lock() for _ in range(SHAPES)]

    def __getitem__(self, number):
        with self.locks[number]:
            if number not in self.made:
                product = Product(self.folder, number, self.seed, **self.how)
                product.bits = self.reference(product)
                sums, terms = product.exact()
                wrong = np.abs(product.bits - sums) > rounding(product, terms)
                assert not np.any(wrong), f"WRONG: {wrong.mean():.2%} of an undisturbed {product.kind}"
                self.made[number] = product
            return self.made[number]


def rounding(product, terms):
    """An upper bound on the rounding error of each element: 64 k u |A||B|; integers have none."""
    return 0 if product.kind == "integers" else 64 * (product.k + 3) * UNIT[product.dtype] * terms


def detectable(product, said, source=None):
    """The error of each element that the run reports it would have detected (src/check/findings.h); infinite when
    it reports that C was not checked."""
    found = re.search(r"RESULT: .*checked to ([\d.e+-]+) of a typical element: PASSED", said)
    if product.kind == "integers":
        return 0
    if not found:
        return np.inf
    sums, terms = product.product(source)
    squares, reach, count = magnitude(sums) ** 2, terms**2, np.full((product.m, 1), product.n)
    if product.mirrored:  # of a row up to the diagonal; what is above is a copy of another row
        squares, reach, count = np.tril(squares), np.tril(reach), np.arange(1, product.m + 1)[:, np.newaxis]
    reach = reach.sum(axis=1, keepdims=True) / count  # over a whole row, not one tile's part
    rows = reach > 0
    share = np.sum(squares / np.where(rows, reach, 1)) / np.sum(count * rows) if np.any(rows) else 0
    typical = np.sqrt((share * np.maximum(reach, terms**2)).astype("f8"))
    return 2 * float(found[1]) * (np.maximum(typical, typical.T) if product.mirrored else typical)


def difference(product, c, said, source=None):
    """How C differs from the exact product: whether by so much that a run that PASSED must have detected
    it, and the largest error relative to a typical element."""
    sums, terms = product.exact(source)
    error = np.abs(c - sums).astype("f8")
    typical = float(np.sqrt(np.mean(magnitude(sums) ** 2)))
    if not np.all(np.isfinite(error)):
        return True, np.inf
    limit = np.maximum(rounding(product, terms), np.minimum(detectable(product, said, source), typical))
    return bool(np.any(error > limit)), float(error.max() / typical)
