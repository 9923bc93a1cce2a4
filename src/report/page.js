/* Draws the page from the report (dgemm_ooc(1) lists its keys) and the course of the run (page.c),
 * which a page that was made from a saved report does not have. */

/* ---- Head ---- */

/* The sign and the size of a factor before a matrix: "−" and "", "−" and "2i ", "" and
 * "(1 + 2i) ". */
function scalar(real, imag) {
    const size = value => digits(Math.abs(value), 6), minus = value => value < 0 ? "−" : "";
    const timesI = `${Math.abs(imag) === 1 ? "" : size(imag)}i`;
    if (real !== 0 && imag !== 0)
        return ["", `(${minus(real)}${size(real)} ${imag < 0 ? "−" : "+"} ${timesI}) `];
    if (imag !== 0)
        return [minus(imag), `${timesI} `];
    return [minus(real), Math.abs(real) === 1 ? "" : `${size(real)} `];
}

/* The product, and how A was standardized before. Covariances are sums of k products, divided by
 * k - 1. */
function formula(problem) {
    const { k, alpha, alpha_imag, beta, beta_imag, center, scale } = problem;
    const factor = (name, transposed, conjugate) =>
        [name, transposed && html("sup", {}, conjugate ? "H" : "T")];
    const mean = center !== "none" && k > 2 && alpha === 1 / (k - 1) && alpha_imag === 0;
    const [sign, size] = mean ? ["", ""] : scalar(alpha, alpha_imag);
    const [signOfC, sizeOfC] = scalar(beta, beta_imag);
    const done = [center !== "none" && "centred", scale !== "none" && "scaled"].filter(Boolean);
    const axis = center === "none" ? scale : center;
    return [`C = ${sign}${size}`, factor("A", problem.trans_a, problem.conjugate_a), " ",
            factor(problem.symmetric ? "A" : "B", problem.trans_b, problem.conjugate_b),
            mean && ` / ${countText(k - 1)}`,
            (beta !== 0 || beta_imag !== 0) &&
                [` ${signOfC || "+"} ${sizeOfC}C`, html("sub", {}, "0")],
            done.length > 0 &&
                `, ${axis === "rows" ? "rows" : "columns"} of A ${done.join(" and ")}`];
}

/* What limited the run, or would limit one that was simulated, and what would make it faster. */
function limitText() {
    const { busiest_stage, stages, wall_s, advice, status, predicted } = report;
    if (status === "simulated" && predicted) {
        const busy = predicted.resources[predicted.limit].busy_max_s / predicted.wall_s;
        return `It would be limited by ${WORK[RESOURCES[predicted.limit]]}, ` +
               `busy ${percent(busy)} of the time.`;
    }
    if (!(wall_s > 0))
        return null;
    const busy = stages[busiest_stage].busy_max_s / wall_s, what = WORK[busiest_stage];
    const limit = busy < 0.5 ? "Limited by no single part of the work: the longest, " +
                               `${what}, took ${percent(busy)} of the time.`
        : `Limited by ${what}, busy ${percent(busy)} of the time.`;
    return advice ? `${limit} Faster: ${advice}.` : limit;
}

function outputFigure() {
    const { status, done, matrices } = report;
    const where = matrices && `${matrices.C.file}:${matrices.C.dataset}`;
    const part = `${percent(done, 1)} is done and saved`;
    const notes = { complete: where, checked: where, simulated: "nothing was multiplied" };
    return ["C", status, notes[status] || part];
}

function timeFigure() {
    const { status, predicted, wall_s, planned_wall_s, stages } = report;
    if (status === "simulated" && predicted)
        return ["predicted time", timeText(predicted.wall_s), "if the machine keeps its rates"];
    if (!(wall_s > 0))
        return null;
    const planned = planned_wall_s > 0 ? `planned ${timeText(planned_wall_s)}; ` : "";
    return ["time", timeText(wall_s), `${planned}${flopsText(stages.gemm.flops / wall_s)}`];
}

/* What the result rests on: read back, C may hold what the sums did not, since alpha and beta C0
 * come after them. */
function decidingCheck() {
    const { checked, full_check } = report;
    return checked && !(full_check && full_check.elements_not_judged > 0) ? report : full_check;
}

function checkFigure() {
    const checked = decidingCheck();
    if (report.status === "simulated")
        return null;
    if (!checked)
        return ["check", "none", "C was not checked"];
    const notes = [checked.finding, report.full_check && "files read back",
                   checked.elements_not_finite > 0 &&
                       `${countText(checked.elements_not_finite)} elements are NaN or Inf`];
    return ["check", checked.verdict || "none", notes.filter(Boolean).join("; ")];
}

/* Memory of the CPU's tiles is the host's. */
function memoryFigure() {
    const { machine, host_peak_bytes, device_peak_bytes, wall_s } = report;
    if (!(wall_s > 0) || !machine)
        return null;
    const gpu = onGpu ? `; GPU ${bytesText(device_peak_bytes)} ` +
                        `of ${bytesText(machine.device_memory_bytes)}` : "";
    const most = machine.ranks > 1 ? ", on the rank that used most" : "";
    return ["memory", bytesText(host_peak_bytes),
            `of ${bytesText(machine.host_memory_bytes)} allowed${gpu}${most}`];
}

function figures() {
    const found = [outputFigure(), timeFigure(), checkFigure(), memoryFigure()];
    return found.filter(Boolean).map(([what, value, note]) => html("div", {},
        html("dt", {}, what), html("dd", {}, value, " ", html("small", {}, note))));
}

/* Another process may have done some before, and tiles may have been multiplied again. */
function shareOfAll() {
    const { m, n, k, alpha, alpha_imag, symmetric, complex } = report.problem;
    const all = (symmetric ? m * (m + 1) : 2 * m * n) * k * (complex ? 4 : 1);
    if (!(report.wall_s > 0) || all === 0 || (alpha === 0 && !alpha_imag))
        return null;
    const part = report.stages.gemm.flops / all, pieces = report.pieces;
    return (pieces > 1 || part < 0.9999) && html("p", {},
        `This process multiplied ${percent(part, 1)} of the product, in ${pieces} ` +
        `piece${pieces === 1 ? "" : "s"}.`);
}

// Reports of earlier versions have no type_c.
function typeText(problem) {
    const rounded = problem.type_c && problem.type_c !== problem.type;
    return problem.type + (rounded ? ` rounded to ${problem.type_c}` : "");
}

function drawHead(into) {
    const problem = report.problem, a = report.matrices && report.matrices.A;
    document.title = `dgemm_ooc: ${plain(a ? a.file : report.status)}`;
    into.append(html("h1", {}, problem ? formula(problem) : "dgemm_ooc"));
    if (problem)
        into.append(html("p", {}, `${problem.complex ? "complex " : ""}${typeText(problem)}, ` +
            `C ${countText(problem.m)} × ${countText(problem.n)}, k = ${countText(problem.k)}`));
    const limit = limitText();
    if (limit)
        into.append(html("p", { class: "limit" }, limit));
    into.append(html("dl", { class: "figures" }, figures()));
    for (const error of report.errors)
        into.append(html("p", { class: "error" }, error));
    const share = problem && shareOfAll();
    if (share)
        into.append(share);
    if (!course)
        into.append(html("p", { class: "note" }, "This page was made from a saved report. The " +
            "timeline, the progress and the tiles are only on the page that a run itself writes, " +
            "with --html."));
    into.append(schemeButton());
}

function schemeButton() {
    const dark = matchMedia("(prefers-color-scheme: dark)"), root = document.documentElement;
    const toggle = button("", "change the colours", () =>
        show(root.dataset.scheme === "dark" ? "light" : "dark"));
    toggle.id = "scheme";
    function show(scheme) {
        root.dataset.scheme = scheme;
        toggle.textContent = scheme === "dark" ? "light" : "dark";
    }
    dark.addEventListener("change", () => show(dark.matches ? "dark" : "light"));
    show(dark.matches ? "dark" : "light");
    return toggle;
}

/* ---- Roofline ---- */

/* The links: what each may carry, of all ranks, and the flops that the run did for each byte. */
function findRoofs() {
    const machine = report.machine, nodes = Math.ceil(machine.ranks / machine.ranks_per_node);
    const rateOf = (stage, key, count) => ({
        stage, name: STAGES[stage], source: machine.sources[key], rate: count * machine[key],
        intensity: report.stages.gemm.flops / report.stages[stage].bytes });
    return [rateOf("read", "disk_read_bytes_per_s", 1),
            rateOf("network", "network_bytes_per_s", nodes),
            rateOf("in", "in_bytes_per_s", machine.ranks),
            rateOf("write", "disk_write_bytes_per_s", 1)]
        .filter(roof => roof.rate > 0 && isFinite(roof.intensity));
}

/* "100G" at 11 decades, "10k" at 4. */
function decadeText(decade) {
    return decade < 0 || decade >= 21 ? `1e${decade}`
        : 10 ** (decade % 3) + ["", "k", "M", "G", "T", "P", "E"][Math.floor(decade / 3)];
}

/* The rate at which a link lets this intensity compute, from the chart's edge to the device's own
 * roof; and the run, with what is between them. */
function drawRoof(c, xs, ys, roof, rate, peak) {
    const slope = Math.log10(roof.rate), top = Math.log10(peak), at = Math.log10(roof.intensity);
    const left = Math.max(xs[0], ys[0] - slope), most = Math.min(top, at + slope);
    c.line(`roof ${roof.stage}`, c.x(left), c.y(left + slope), c.x(top - slope), c.y(top));
    c.line(`stem ${roof.stage}`, c.x(at), c.y(Math.log10(rate)), c.x(at), c.y(most));
    c.picture.append(svg("circle", {
        class: roof.stage, cx: c.x(at).toFixed(1), cy: c.y(Math.log10(rate)).toFixed(1), r: 4.5,
        "data-tip": `${roof.name}: ${digits(roof.intensity, 4)} operations for each byte, ` +
                    `${flopsText(rate)} of at most ${flopsText(10 ** most)}` }));
}

function roofLegend(roofs, rate, peak) {
    const machine = report.machine;
    const item = (stage, words) => html("li", {}, html("i", { class: stage }), words);
    const key = onGpu && report.moduli > 0 ? "int8_ops_per_s"
        : `gemm_${report.problem.type}_flops_per_s`;
    const source = machine.sources[key] || "assumed"; // of integers no machine file has a rate
    return html("ul", { class: "legend" },
        item("gemm", `${onGpu ? "GPU" : "CPU"}${machine.ranks > 1 ? "s" : ""}: ` +
                     `at most ${flopsText(peak)} (${source})`),
        roofs.map(roof => {
            const most = Math.min(peak, roof.intensity * roof.rate);
            const part = 100 * rate / most;
            const reached = part < 10 ? digits(part, 2) : part.toFixed(0);
            return item(roof.stage, `${roof.name}: ${rateText(roof.rate)} (${roof.source}) ` +
                `allow ${flopsText(most)}; reached ${reached} %`);
        }));
}

function drawRoofline(into) {
    if (!(report.wall_s > 0) || !report.plan)
        return;
    const roofs = findRoofs(), rate = report.stages.gemm.flops / report.wall_s;
    const peak = report.plan.gemm_flops_per_s * report.machine.ranks;
    if (roofs.length === 0 || !(rate > 0) || !(peak > 0))
        return;
    /* The decades of all points, and of the places where roofs meet. */
    const points = roofs.flatMap(roof => [roof.intensity, peak / roof.rate]).map(Math.log10);
    const decades = values => [Math.floor(Math.min(...values)) - 0.1,
                               Math.ceil(Math.max(...values)) + 0.1];
    const xs = decades(points), ys = decades([rate, Math.max(rate, peak)].map(Math.log10));
    const c = chart(xs, ys, "roofline"), top = c.y(Math.log10(peak));
    for (const x of ticks(Math.ceil(xs[0]), xs[1], xs[1] - Math.ceil(xs[0])))
        c.tickX(x, decadeText(x));
    for (const y of ticks(Math.ceil(ys[0]), ys[1], ys[1] - Math.ceil(ys[0])))
        c.tickY(y, decadeText(y));
    c.line("roof gemm", c.x(xs[0]), top, CHART.width - CHART.right, top);
    roofs.forEach(roof => drawRoof(c, xs, ys, roof, rate, peak));
    c.labelX("operations for each byte");
    const middle = (CHART.top + CHART.height - CHART.bottom) / 2;
    c.text({ class: "label", transform: `translate(10 ${middle}) rotate(-90)`,
             "text-anchor": "middle" }, "flop/s");
    into.append(html("h2", {}, "Roofline"), c.picture, roofLegend(roofs, rate, peak),
        html("p", { class: "note" }, "Each point is this run, above the operations that it " +
             "did for a byte of that colour. The line above the point is the most that the rate " +
             "of these bytes allows. The rates were given, measured at the start, or assumed."));
}

/* ---- Planned and measured ---- */

const row = (name, ...cells) => html("tr", {}, html("th", { scope: "row" }, name),
    cells.map(cell => cell instanceof HTMLTableCellElement ? cell : html("td", {}, cell)));
const head = (...names) => html("thead", {}, html("tr", {}, names.map(name =>
    name instanceof Node ? name : html("th", { scope: "col" }, name))));

/* A row of seconds, with bars up to `most` of them. */
function secondsRow(name, planned, measured, most) {
    const bar = (cls, y, height, seconds) => svg("rect", {
        class: cls, y, height, width: (100 * seconds / most).toFixed(2) });
    const words = `${name}: planned ${digits(planned, 6)} s, measured ${digits(measured, 6)} s`;
    return row(name, timeText(planned), timeText(measured),
        html("td", { class: "bars", "data-tip": words },
             svg("svg", { viewBox: "0 0 100 16", preserveAspectRatio: "none", role: "img",
                          "aria-label": words },
                 bar("planned", 1, 4, planned), bar("measured", 6, 9, measured))));
}

function drawPlan(into) {
    if (!(report.wall_s > 0) || !report.plan)
        return;
    const { plan } = report;
    const stages = Object.keys(STAGES)
        .map(key => ({ key, name: STAGES[key], ...report.stages[key] }))
        .filter(({ key, planned_busy_s }) => planned_busy_s > 0 ||
                                             (planned_busy_s === 0 && amountOf(key) > 0));
    const most = Math.max(report.planned_wall_s, report.wall_s,
                          ...stages.map(stage => stage.planned_busy_s));
    const amounts = stages.map(({ key, name, planned_bytes, planned_flops }) => key === "gemm"
        ? row(name, workText(planned_flops), workText(amountOf(key)))
        : row(name, bytesText(planned_bytes), bytesText(amountOf(key))));
    into.append(html("h2", {}, "Planned and measured"), html("div", { class: "pair" },
        html("div", {}, html("table", {},
            head("time, busiest rank", "planned", "measured",
                 html("th", { scope: "col", class: "bars" }, "planned (grey), measured")),
            html("tbody", {}, stages.map(({ name, planned_busy_s, busy_max_s }) =>
                     secondsRow(name, planned_busy_s, busy_max_s, most)),
                 secondsRow("wall", report.planned_wall_s, report.wall_s, most)))),
        html("div", {}, html("table", {}, head("amount, all ranks", "planned", "measured"),
            html("tbody", {}, amounts,
                 onGpu && row("GPU memory, a rank", bytesText(plan.device_bytes),
                              bytesText(report.device_peak_bytes)),
                 row("memory, a rank", bytesText(plan.host_bytes),
                     bytesText(report.host_peak_bytes)))))));
}

/* Of a dry run. */
function drawSimulated(into) {
    const simulated = report.status === "simulated" && report.predicted;
    if (!simulated)
        return;
    const found = Object.entries(simulated.resources).filter(([, used]) => used.busy_max_s > 0);
    into.append(html("h2", {}, "Simulated"), html("table", {},
        head("resource", "how many", "amount", "busiest one at work"),
        html("tbody", {}, found.map(([name, used]) => row(
            ["in", "out"].includes(RESOURCES[name]) ? STAGES[RESOURCES[name]] : name,
            countText(used.count),
            used.flops === undefined ? bytesText(used.bytes) : workText(used.flops),
            percent(used.busy_max_s / simulated.wall_s, 1))))));
}

/* ---- Tiles ---- */

const SIDE = 400; // of the longer side of C; the shorter one has a quarter of it at least
const MAP = { left: 4, top: 20 };
const COLOURS = 8; // of ranks, in turn
const NUMBERED_MAX = 200; // so many cells at most have their rank written into them

/* Which rows and columns, by whom, how well. */
function cellText([first, left, height, width, rank, residual, not_finite]) {
    return `rows ${first} to ${first + height - 1}, columns ${left} to ${left + width - 1}: ` +
           `rank ${rank}, ` +
           (residual === null ? "not checked" : `residual ${digits(residual, 6)} of its limit`) +
           (not_finite > 0 ? `, ${not_finite} elements NaN or Inf` : "");
}

function drawMap(title, paint, numbered) {
    const { m, n } = report.problem, scale = SIDE / Math.max(m, n), cells = course.tiles.cells;
    const width = Math.max(scale * n, SIDE / 4), height = Math.max(scale * m, SIDE / 4);
    const box = ([top, left, down, across]) => ({
        x: MAP.left + left * width / n, y: MAP.top + top * height / m,
        width: across * width / n, height: down * height / m });
    const picture = svg("svg", {
        class: "map", role: "img", "aria-label": `tiles of C ${title}`,
        viewBox: `0 0 ${(width + 2 * MAP.left).toFixed(0)} ` +
                 `${(height + MAP.top + MAP.left).toFixed(0)}`,
        style: `max-width: ${(width + 2 * MAP.left).toFixed(0)}px` },
        svg("text", { x: MAP.left, y: 14 }, title),
        svg("rect", { class: "frame", x: MAP.left, y: MAP.top, width, height }));
    cells.forEach((cell, i) => picture.append(svg("rect", {
        ...box(cell), ...paint(cell), "data-cell": i, "data-tip": cellText(cell) })));
    for (const cell of numbered && cells.length <= NUMBERED_MAX ? cells : []) {
        const { x, y, width: across, height: down } = box(cell);
        if (across > 16 && down > 14)
            picture.append(svg("text", { class: "number", x: x + across / 2, y: y + down / 2 + 4,
                                         "text-anchor": "middle" }, countText(cell[4])));
    }
    return picture;
}

const opacity = part => (0.1 + 0.9 * Math.max(0, part)).toFixed(2);

/* Which colour stands for which residual. */
function residualScale(largest) {
    const STEPS = 20, WIDTH = 220;
    const steps = Array.from({ length: STEPS }, (_, i) => svg("rect", {
        class: "residual", x: 4 + i * WIDTH / STEPS, y: 2, width: WIDTH / STEPS, height: 12,
        "fill-opacity": opacity((i + 0.5) / STEPS) }));
    const marks = ["start", "middle", "end"].map((anchor, i) => svg("text", {
        x: 4 + i / 2 * WIDTH, y: 28, "text-anchor": anchor }, digits(i / 2 * largest, 3)));
    return [svg("svg", { class: "scale", role: "img", viewBox: `0 0 ${WIDTH + 40} 34`,
                         "aria-label": `residuals from 0 to ${digits(largest, 3)}` }, steps, marks),
            html("p", { class: "note" }, "Residual of the check, as a part of its limit. " +
                 "Grey: not checked.")];
}

function drawTiles(into) {
    if (!course)
        return;
    const { m, n, symmetric, lower, packed } = report.problem, { merged } = course.tiles;
    const largest = report.residual || 0;
    const note = words => html("p", { class: "note" }, words);
    const byResidual = ([, , , , , residual]) => residual === null ? { class: "unchecked" }
        : { class: "residual", "fill-opacity": opacity(largest > 0 ? residual / largest : 0) };
    into.append(html("h2", {}, "Tiles of C"),
        html("p", {}, `${m} rows from top to bottom, ${n} columns from left to right.` +
                      (packed ? " The file of C ends each row on the diagonal."
                          : lower ? " Above the diagonal C is 0."
                          : symmetric ? " Above the diagonal C mirrors what is below it." : "")),
        html("div", { class: "maps" },
             drawMap("by rank", cell => ({ class: `rank${cell[4] % COLOURS}` }), true),
             drawMap("by residual", byResidual, false)));
    into.append(...report.checked ? residualScale(largest) : [note("C was not checked.")]);
    const ranks = report.machine.ranks;
    if (ranks > 1 && ranks <= COLOURS)
        into.append(html("ul", { class: "legend" }, Array.from({ length: ranks }, (_, rank) =>
            html("li", {}, html("i", { class: `rank${rank}` }), `rank ${rank}`))));
    if (ranks > COLOURS)
        into.append(note(`Ranks ${COLOURS} apart have the same colour.`));
    if (merged > 1)
        into.append(note(`Up to ${merged} × ${merged} tiles make one cell, with the rank of the ` +
                         "first and the largest residual."));
    if (report.plan.layers > 1)
        into.append(note(`${report.plan.layers} layers of ranks share k: each cell shows the ` +
                         "rank that added their sums."));
}

/* ---- Ranks ---- */

function placeRow(place, rank) {
    return row(countText(rank), place.host, ...(onGpu ? [place.device, place.pci] : []),
               place.numa, place.cpus, place.bound_by);
}

/* The table is made when it is wanted. */
function drawRanks(into) {
    if (!report.ranks || report.ranks.length === 0)
        return;
    const hosts = new Set(report.ranks.map(place => place.host)), known = report.ranks.length;
    const body = html("tbody"), find = html("input", { type: "search", id: "find",
        placeholder: onGpu ? "host, GPU, CPUs" : "host, CPUs", "aria-label": "show ranks with" });
    const rowsOf = () => report.ranks.map(placeRow).filter(each =>
        each.textContent.toLowerCase().includes(find.value.toLowerCase()));
    const list = html("details", {}, html("summary", {}, "Where each is"),
        html("div", { class: "controls" }, find),
        html("div", { class: "scroll" }, html("table", { class: "words" },
            head("rank", "host", ...(onGpu ? ["GPU", "PCI address"] : []), "NUMA nodes", "CPUs",
                 "bound by"), body)));
    const show = () => body.replaceChildren(...rowsOf());
    list.addEventListener("toggle", () => list.open && show());
    find.addEventListener("input", show);
    const several = (count, what) => `${count} ${what}${count === 1 ? "" : "s"}`;
    into.append(html("h2", {}, "Ranks"), html("p", {}, `${several(known, "rank")} on ` +
        `${several(hosts.size, "host")}: ${[...hosts].slice(0, 8).join(", ")}` +
        `${hosts.size > 8 ? ", ..." : ""}.`));
    if (known < report.machine.ranks)
        into.append(html("p", { class: "note" }, `These are the first of ` +
            `${report.machine.ranks} ranks; the report has all.`));
    into.append(list);
}

/* ---- Details ---- */

function matrixRow(name, label) {
    const matrix = report.matrices[name], { problem, io } = report;
    const turned = (name === "A" && problem.trans_a) || (name === "B" && problem.trans_b);
    return matrix && row(label, `${matrix.file}:${matrix.dataset}, ` +
        `${matrix.rows} × ${matrix.cols}${turned ? " transposed" : ""}` +
        (io ? `, ${io[name] || "not read"}` : ""));
}

function machineRows() {
    const { machine, plan } = report;
    if (!machine)
        return [];
    const bits = report.same_bits ? "the same bits on any number of ranks" : "bits not promised";
    const found = [row("machine", machine.name)];
    if (report.algorithm)
        found.push(row("kernel", `${report.algorithm}: ${bits}`));
    const step = plan && plan.slabs ? Math.min(plan.slab, report.problem.k) : 0;
    if (plan)
        found.push(
            row("ranks", `${machine.ranks}, ${machine.ranks_per_node} on a node, in a grid of ` +
                `${plan.grid.join(" × ")}` +
                (plan.layers > 1 ? `, ${plan.layers} layers of k` : "") +
                (plan.idle_ranks > 0 ? `, ${plan.idle_ranks} without a tile` : "")),
            row("tile", `${plan.tile.join(" × ")}, ${countText(step)} of k in a step, ` +
                `${plan.super_blocks.join(" × ")} rounds of a tile on each rank`));
    return found;
}

function fullCheckRow() {
    const full = report.full_check;
    return full && row("files read back", `${bytesText(full.bytes)} in ${timeText(full.busy_s)}: ` +
        `${full.verdict || "none"}, ${full.finding}`);
}

function drawDetails(into) {
    const code = html("code", {}, report.command);
    into.append(html("h2", {}, "Details"), html("table", { class: "words" }, html("tbody", {},
        report.matrices && [matrixRow("A", "A"), matrixRow("B", "B"),
                            matrixRow("C0", ["C", html("sub", {}, "0")]), matrixRow("C", "C")],
        machineRows(), fullCheckRow(),
        report.startup_s !== undefined && row("start-up", timeText(report.startup_s)),
        row("command", code), row("directory", report.directory),
        row("version", report.program + (report.built ? ` ${report.built}` : "")),
        row("date", report.date.replace("T", " ").replace("Z", " UTC")))));
}

/* ---- The page ---- */

const SECTIONS = { head: drawHead, timeline: drawTimelineSection, roofline: drawRoofline,
                   progress: drawProgress, plan: drawPlan, simulated: drawSimulated, map: drawTiles,
                   ranks: drawRanks, details: drawDetails };
for (const [id, draw] of Object.entries(SECTIONS))
    try {
        draw(byId(id));
    } catch (error) { // of a report that was not written by this version
        byId(id).append(html("p", { class: "error" }, "This part cannot be drawn: ",
                             error.message));
    }
document.addEventListener("pointermove", pointAt);
document.addEventListener("pointerdown", pointAt);
addEventListener("scroll", () => { tip.hidden = true; }, { passive: true });
