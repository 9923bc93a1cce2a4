"""The table of bench.py, in at most 100 columns."""

TITLES = {"read": "disk read", "in": "host to device", "gemm": "multiply",
          "out": "device to host", "write": "disk write"}


def size(count):
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if count < 1024 or unit == "TiB":
            return f"{count:.3g} {unit}"
        count /= 1024


def rate(stage, per_second):
    unit = "FLOP/s" if stage == "gemm" else "B/s"
    prefix, scale = next(x for x in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("", 1))
                         if per_second >= x[1] or x[1] == 1)
    return f"{per_second / scale:.3g} {prefix}{unit}"


def spread(s):
    return f"{s['min']:.3f}..{s['max']:.3f}"


def heading(case):
    memory = [f"{name} memory {size(case[key])}" for name, key in
              (("GPU", "gpu_memory_bytes"), ("host", "host_memory_bytes")) if case[key]]
    plan = case["program"]["plan"]
    title = f"{case['regime']}: {case['m']}x{case['n']}x{case['k']} doubles"
    print("", ", ".join([title, *memory]), sep="\n")
    print(f"  files in {case['folder']}{', none of them cached' if case['cold'] else ''}")
    print(f"  {case['program']['algorithm']}: {plan['super_blocks'][0]}x{plan['super_blocks'][1]} "
          f"super-blocks of {plan['tile'][0]}x{plan['tile'][1]}, {plan['slabs']} slabs of "
          f"{plan['slab']}, slots of {size(plan['slot_bytes'])}")


def stages(case):
    program = case["program"]
    print(f"  {'':15}{'alone':>13}{'in the run':>14}{'share':>8}{'busy s':>10}   spread")
    for name, title in TITLES.items():
        s, ceiling = program["stages"][name], case["ceilings"][name]
        print(f"  {title:15}{rate(name, ceiling['rate']['median']):>13}"
              f"{rate(name, s['rate']):>14}{s['of_ceiling']:8.2f}{s['busy_s']['median']:10.3f}   "
              f"{spread(s['busy_s']):14}  {ceiling['way']}")


def verdict(case):
    p = case["program"]
    bound = p["stages"][p["bound"]]["ceiling_s"]
    print(f"  wall {p['wall_s']['median']:.3f} s ({spread(p['wall_s'])}), planned "
          f"{p['predicted']['wall_s']:.3f}, after {p['startup_s']['median']:.2f} s of start-up; "
          f"residual {p['residual']:.2g}")
    print(f"  overlap: {TITLES[p['busiest']]} is busy for {p['overlap']['median']:.2f} of it; "
          f"{TITLES[p['bound']]} alone would take {bound:.3f} s, {p['efficiency']:.2f} of it")


def line(name, seconds, ratio, spread_text):
    cells = "".join(f"{s:10.3f}" if s is not None else f"{'':10}" for s in seconds)
    print(f"  {name:34}{cells}{ratio:8.2f}  {spread_text}")


def rivals(case):
    p = case["program"]
    print(f"  {'seconds':34}{'read':>10}{'multiply':>10}{'write':>10}{'wall':>10}{'':>3}ratio  "
          f"spread")
    busy = [p["stages"][s]["busy_s"]["median"] for s in ("read", "gemm", "write")]
    line("dgemm_ooc, overlapping", [*busy, p["wall_s"]["median"]], 1, spread(p["wall_s"]))
    for name, r in case["rivals"].items():
        keys = ("read_s", "multiply_s", "write_s", "wall_s")
        alone = r["compute_only"]
        line(name, [r[k]["median"] if not alone or k == "multiply_s" else None for k in keys],
             r["ratio"], spread(r["multiply_s" if alone else "wall_s"]))
    for library in sorted({r["library"] for r in case["rivals"].values() if "library" in r}):
        print(f"  {library}")


def show(result):
    machine = result["machine"]
    print(f"{machine['device_name']}, {machine['cpus']} CPUs ({machine['cpu']}); "
          f"{result['commit'] or result['cases'][0]['program']['program']}; {result['date']}")
    print(f"medians of {result['repeat']}; load {machine['load'][0]:.1f} before, "
          f"{machine['load'][1]:.1f} after")
    for case in result["cases"]:
        heading(case)
        stages(case)
        verdict(case)
        rivals(case)
