"""Ranks that see different files, folders or commands.  Each has a mount namespace of its own in which one folder is
its own, and is on a computer of its own, as far as the program can tell."""
import os
import random
import shutil
import subprocess

import h5py
import numpy as np
import pytest

from cases import are_few, each
from launch import BUILD, FAULTY, PATIENCE, RANK, Process, environment, run
from matrices import read, snapshot, wait_until

pytestmark = [
    pytest.mark.skipif(subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode != 0,
                       reason="no mount namespaces here"),
    pytest.mark.skipif(not (BUILD / FAULTY).exists(), reason="the program with faults is not built: make test")]
M, N, K = 60, 50, 70
START = f"""
folder=$0 rank={RANK}
export DGEMM_OOC_TEST_COMPUTER=computer$rank
mount --bind "$folder/$rank" "$folder/here"
[ ! -f "$folder/$rank/environment" ] || . "$folder/$rank/environment"
cd "$folder/here"
exec "$@"
"""
SEEDS = (6 if are_few() else 10) * int(os.environ.get("DGEMM_OOC_TEST_SEEDS", "1"))


def begin(folder, ranks, *options, **env):
    """Start so many ranks, of which rank R has folder/R as folder/here."""
    (folder / "here").mkdir(exist_ok=True)
    return Process(
        ["mpirun", "-n", str(ranks), "unshare", "-m", "sh", "-c", START, folder, BUILD / FAULTY, *map(str, options)],
        env=environment(ranks, DGEMM_OOC_DEVICE="cpu", **env), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def start(folder, ranks, *options):
    with begin(folder, ranks, *options) as process:
        out, err = process.communicate(timeout=PATIENCE)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def contiguous(path, a, b):
    with h5py.File(path, "w") as file:
        file["A"], file["B"] = a, b


def chunked(path, a, b):
    with h5py.File(path, "w") as file:
        for name, matrix in ("A", a), ("B", b):
            file.create_dataset(name, data=matrix, chunks=(16, 24), compression="gzip")


def virtual(path, a, b):
    """The rows of A are in three files, in a folder that only a prefix names; B is here."""
    source = path.parent / "sources"
    source.mkdir()
    layout = h5py.VirtualLayout(a.shape, a.dtype)
    for i, rows in enumerate(np.array_split(np.arange(len(a)), 3)):
        with h5py.File(source / f"part{i}.h5", "w") as file:
            file["X"] = a[rows]
        layout[rows] = h5py.VirtualSource(f"part{i}.h5", "X", (len(rows), a.shape[1]))
    with h5py.File(path, "w") as file:
        file.create_virtual_dataset("A", layout)
        file["B"] = b
    (path.parent / "environment").write_text(f"export HDF5_VDS_PREFIX={path.parent.parent}/here/sources\n")


def external(path, a, b):
    a.tofile(path.parent / "raw")
    with h5py.File(path, "w") as file:
        file.create_dataset("A", a.shape, a.dtype, external=[(str(path.parent.parent / "here/raw"), 0, a.nbytes)])
        file["B"] = b


LAYOUTS = [contiguous, chunked, virtual, external]


def data_of(folder):
    """The file of the folder that holds the elements of A."""
    return next(path for path in (folder / "sources/part1.h5", folder / "raw", folder / "input.h5") if path.exists())


def other_content(folder):
    path, (a, b) = data_of(folder), matrices(7)
    before = path.stat()
    if path.name == "raw":
        a.tofile(path)
    else:
        with h5py.File(path, "r+") as file:
            name = "X" if "X" in file else "A"
            file[name][...] = a[:len(file[name])]
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def other_time(folder):
    os.utime(data_of(folder), ns=(0, 0))


def other_size(folder):
    with open(data_of(folder), "ab") as file:
        file.write(bytes(100))


def gone(folder):
    data_of(folder).unlink()


def other_order(folder):
    """The same matrices at other places."""
    path = folder / "input.h5"
    with h5py.File(path) as file:
        if any(file[name].is_virtual or file[name].external for name in "AB"):
            return other_content(folder)
        made = chunked if file["A"].chunks else contiguous
        a, b = file["A"][()], file["B"][()]
    made(path, b[:, :1], a[:1])  # takes the first places
    with h5py.File(path, "r+") as file:
        del file["A"], file["B"]
        file["B"], file["A"] = b, a
    os.utime(path, ns=(1 << 60, 1 << 60))
    return None


def no_prefix(folder):
    if not (folder / "environment").exists():
        return gone(folder)
    (folder / "environment").write_text("export HDF5_VDS_PREFIX=/nowhere\n")
    return None


DIFFERENCES = [other_content, other_time, other_size, gone, other_order, no_prefix]


def matrices(seed):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((M, K)), rng.standard_normal((K, N))


def prepare(folder, ranks, layout):
    """The same files for all ranks; the elements of C."""
    a, b = matrices(1)
    (folder / "0").mkdir()
    layout(folder / "0/input.h5", a, b)
    for rank in range(1, ranks):
        shutil.copytree(folder / "0", folder / str(rank), copy_function=shutil.copy2)
    return a @ b


@each("layout", LAYOUTS)
def test_the_same_files(tmp_path, layout):
    (tmp_path / "out").mkdir()
    c = prepare(tmp_path, 3, layout)
    done = start(tmp_path, 3, "input.h5", "-o", tmp_path / "out/C.h5")
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(read(tmp_path / "out/C.h5"), c, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_other_files(tmp_path, seed):
    rng = random.Random(seed)
    ranks, layout = rng.randint(2, 4), rng.choice(LAYOUTS)
    (tmp_path / "out").mkdir()
    prepare(tmp_path, ranks, layout)
    rank, difference = rng.randrange(1, ranks), DIFFERENCES[seed % len(DIFFERENCES)]
    difference(tmp_path / str(rank))
    more = rng.choice([[], ["--tile", "16x16x16"], ["--verify", "off"], ["--io", "buffered"] * (layout == contiguous)])
    done = start(tmp_path, ranks, "input.h5", "-o", tmp_path / "out/C.h5", *more)
    assert done.returncode == 3 and "RESULT" not in done.stdout, done.stdout + done.stderr
    assert "does not see the" in done.stderr and f"on rank {rank} (" in done.stderr, done.stderr
    assert os.listdir(tmp_path / "out") == []


@pytest.mark.parametrize("saved", [False, True])
def test_another_part_file(tmp_path, saved):
    """A part file of that size, which another run has left where rank 1 looks for the output."""
    prepare(tmp_path, 2, contiguous)
    done = run("dgemm_ooc", tmp_path / "1/input.h5", "-o", tmp_path / "1/C.h5")
    assert done.returncode == 0
    (tmp_path / "1/C.h5").rename(tmp_path / "1/C.h5.part")
    if saved:
        for sums in "sums0", "sums1":
            shutil.copy(tmp_path / "1/C.h5.part", tmp_path / f"1/C.h5.part.{sums}")
    done = start(tmp_path, 2, "input.h5", "-o", "C.h5")
    assert done.returncode == 3 and "RESULT" not in done.stdout
    assert "does not see the C.h5.part that rank 0 writes" in done.stderr and "on rank 1 (" in done.stderr, done.stderr
    assert sorted(os.listdir(tmp_path / "0")) == ["input.h5"]


def copy_for_rank_1(folder):
    shutil.copytree(folder / "0", folder / "1", copy_function=shutil.copy2)


@pytest.mark.parametrize("words", [["--check-only"], ["--verify", "full"]])
def test_another_output_is_not_checked(tmp_path, words):
    """Rank 1 reads the last rows of C, and these are wrong where rank 0 has them."""
    prepare(tmp_path, 1, contiguous)
    assert run("dgemm_ooc", tmp_path / "0/input.h5").returncode == 0
    copy_for_rank_1(tmp_path)
    with h5py.File(tmp_path / "0/input-C.h5", "r+") as file:
        file["C"][M - 1, :] = 0
    done = start(tmp_path, 2, "input.h5", *words)
    assert done.returncode == 3 and "PASSED" not in done.stdout, done.stdout
    assert "does not see the" in done.stderr and "input-C.h5" in done.stderr and "on rank 1 (" in done.stderr, done.stderr


@pytest.mark.parametrize("row", [0, M - 1])
def test_another_part_file_is_not_resumed_from(tmp_path, row):
    """All is multiplied, and C had not got its name.  What another node has there is wrong;
    nothing is lost."""
    prepare(tmp_path, 1, contiguous)
    done = run(FAULTY, tmp_path / "0/input.h5", DGEMM_OOC_TEST_FAULTS="rename:eio@1")
    assert done.returncode == 1 and "C is complete in it" in done.stderr
    copy_for_rank_1(tmp_path)
    with h5py.File(tmp_path / "1/input-C.h5.part", "r+") as file:
        file["C"][row, :] = 0
    before = snapshot(tmp_path / "1")
    done = start(tmp_path, 2, "input.h5")
    assert done.returncode == 3 and "RESULT" not in done.stdout, done.stdout + done.stderr
    assert "does not see the" in done.stderr and "on rank 1 (" in done.stderr, done.stderr
    assert snapshot(tmp_path / "1") == before
    done = run("dgemm_ooc", tmp_path / "0/input.h5", "--restart", "require")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("words", [[], ["--verify", "full"]])
def test_files_that_change_on_another_computer(tmp_path, words):
    """Rank 0 sees no change of the copy that rank 1 reads."""
    prepare(tmp_path, 2, contiguous)
    (tmp_path / "out").mkdir()
    with begin(tmp_path, 2, "input.h5", "-o", tmp_path / "out/C.h5", "--tile", "16x16x16", *words,
               DGEMM_OOC_TEST_FAULTS="pread:delay%50") as process:
        wait_until((tmp_path / "out/C.h5.part").exists, process)
        other_content(tmp_path / "1")
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 3 and "RESULT: C complete" not in out, out + err
    assert "input.h5, which A and B are read from, changed while it was in use" in err and "on rank 1 (" in err, err
    assert os.listdir(tmp_path / "out") == []


def test_other_commands(tmp_path):
    """As a task farm starts them: another input for each rank."""
    a, b = matrices(1)
    for rank in range(2):
        contiguous(tmp_path / f"in{rank}.h5", a, b)
    for command in f"{BUILD}/dgemm_ooc in{RANK}.h5", f"DGEMM_OOC_ALPHA={RANK} {BUILD}/dgemm_ooc in0.h5":
        done = subprocess.run(["mpirun", "-n", "2", "sh", "-c", command], env=environment(2), cwd=tmp_path,
                              capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 2 and "RESULT" not in done.stdout
        assert "has another command line" in done.stderr and "on rank 1 (" in done.stderr, done.stderr
    assert sorted(os.listdir(tmp_path)) == ["in0.h5", "in1.h5"]


@pytest.mark.parametrize("whole", [False, True])
def test_other_folders(tmp_path, whole):
    """Relative names are other files in another folder; whole ones are not."""
    (tmp_path / "there").mkdir()
    contiguous(tmp_path / "input.h5", *matrices(1))
    folder = f"{tmp_path}/" if whole else ""
    done = subprocess.run(["mpirun", "-n", "2", "sh", "-c", f"[ {RANK} = 0 ] || cd there; exec {BUILD}/dgemm_ooc "
                           f"{folder}input.h5 -o {folder}C.h5"], env=environment(2), cwd=tmp_path,
                          capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == (0 if whole else 3), done.stderr
    assert whole or "was started in another folder" in done.stderr


def test_a_task_that_is_alone(tmp_path):
    """Started in the environment of rank 2, which a shell has inherited: not a silent end."""
    contiguous(tmp_path / "input.h5", *matrices(1))
    for names in ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"), ("PMI_SIZE", "PMI_RANK"):
        done = run("dgemm_ooc", tmp_path / "input.h5", **dict(zip(names, ("4", "2"))))
        assert done.returncode == 0 or "started 4 tasks" in done.stderr
