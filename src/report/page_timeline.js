/* The timeline, and the progress below it, which show the same time. */

/* ---- Timeline ---- */

const SHADES = 8;
const LANE_HEIGHT = 10; // in the picture's own units
const RANKS_APART = 4; // up to so many rows, each has its stages together
const LEAST_BINS = 4; // in view

/* Which hosts the ranks are on that begin at `first`. */
function hostsOf(first, count) {
    const hosts = (report.ranks || []).slice(first, first + count).map(place => place.host);
    const last = hosts[hosts.length - 1];
    return hosts[0] === last ? hosts[0] || "" : `${hosts[0]} to ${last}`;
}

/* A row with all its lanes: the time that the device neither multiplies nor checks is one. */
function withLanes(row) {
    const whole_s = course.bins * course.width_s, end = row.rank + row.ranks - 1;
    const none = { busy_s: 0, shares: new Array(course.bins).fill(0) };
    const { gemm = none, check = none } = row.stages;
    const waits = {
        busy_s: Math.max(0, whole_s - gemm.busy_s - check.busy_s),
        shares: gemm.shares.map((share, i) => Math.max(0, FULL - share - check.shares[i])),
    };
    return { name: row.ranks === 1 ? `rank ${row.rank}` : `ranks ${row.rank} to ${end}`,
             hosts: hostsOf(row.rank, row.ranks), lanes: { ...row.stages, waits }, hidden: false };
}

const rows = course ? course.rows.map(withLanes) : [];
const usedLanes = LANE_ORDER.filter(lane => rows.some(row => row.lanes[lane]));
/* The bins that are shown, and how. */
const view = { from: 0, to: course ? course.bins : 0, byRank: rows.length <= RANKS_APART };
const shownRows = () => rows.filter(row => !row.hidden);
const viewBins = () => view.to - view.from;

/* The part of the time in view in which the lane was in use, on average of the row's ranks. */
function shareOf(row, lane) {
    const { busy_s, shares } = row.lanes[lane] || { busy_s: 0, shares: [] };
    if (viewBins() === course.bins)
        return busy_s / (course.bins * course.width_s);
    let sum = 0;
    for (let i = view.from; i < view.to && shares.length; i++)
        sum += shares[i];
    return sum / (FULL * viewBins());
}

function meanShare(lane) {
    const shown = shownRows();
    return shown.reduce((sum, row) => sum + shareOf(row, lane), 0) / shown.length;
}

/* All that has one shade in one stroke.  The least that a stage does can be seen, but not the least
 * pause between two products. */
function strokes(shares, lane, y) {
    const shade = i => (lane === "waits" ? Math.round : Math.ceil)(SHADES * shares[i] / FULL);
    const lines = new Array(SHADES + 1).fill("");
    for (let i = view.from, end; i < view.to; i = end) {
        for (end = i + 1; end < view.to && shade(end) === shade(i);)
            end++;
        lines[shade(i)] += `M${i} ${y}h${end - i}`;
    }
    return lines.map((line, i) => i > 0 && line && svg("path", {
        "stroke-opacity": i / SHADES, d: line }));
}

const binTime = bin => digits(bin * course.width_s / timeUnit(viewBins() * course.width_s).s, 6);

/* "12.3 to 12.6 milliseconds" of a bin. */
function binText(bin) {
    const { name } = timeUnit(viewBins() * course.width_s);
    return `${binTime(bin)} to ${binTime(bin + 1)} ${name}`;
}

/* The bin in view at so much of a picture's width. */
function binAt(clientX, box) {
    const bin = view.from + Math.floor(viewBins() * (clientX - box.left) / box.width);
    return Math.min(view.to - 1, Math.max(view.from, bin));
}

function drawLane(row, lane, y) {
    const share = shareOf(row, lane), { shares = [] } = row.lanes[lane] || {};
    const busy_s = share * viewBins() * course.width_s;
    const group = svg("g", {
        class: lane === "waits" ? "idle" : "busy",
        "data-tip": `${row.name}, ${LANES[lane]}: ${digits(busy_s, 6)} s, ` +
                    `${percent(share, 1)} of the time` },
        svg("rect", { x: view.from, y: y + 1, width: viewBins(), height: LANE_HEIGHT - 2 }),
        shares.length > 0 && strokes(shares, lane, y + LANE_HEIGHT / 2));
    places.set(group, event => {
        const bin = binAt(event.clientX, group.ownerSVGElement.getBoundingClientRect());
        return `${binText(bin)}: ${percent((shares[bin] || 0) / FULL, 1)}`;
    });
    return group;
}

/* Lanes of [row, lane] from top to bottom, with the grid of the time's ticks over them. */
function drawLanes(lanes, label) {
    const height = lanes.length * LANE_HEIGHT;
    const { s } = timeUnit(viewBins() * course.width_s);
    const grid = ticks(view.from * course.width_s / s, view.to * course.width_s / s, 6)
        .map(at => `M${(at * s / course.width_s).toFixed(2)} 0v${height}`).join("");
    return svg("svg", { class: "lanes", role: "img", "aria-label": label,
                        viewBox: `${view.from} 0 ${viewBins()} ${height}`,
                        preserveAspectRatio: "none",
                        style: `height: calc(var(--h) * ${lanes.length})` },
               lanes.map(([row, lane], i) => drawLane(row, lane, i * LANE_HEIGHT)),
               svg("path", { class: "grid", d: grid }));
}

/* A rank, and its stages from top to bottom. */
function drawRank(row) {
    return [
        html("h3", {}, row.name, html("small", {}, row.hosts)),
        html("div", { class: "names" }, usedLanes.map(lane => html("span", {}, LANES[lane]))),
        drawLanes(usedLanes.map(lane => [row, lane]), row.name),
        html("div", { class: "shares" },
             usedLanes.map(lane => html("span", {}, percent(shareOf(row, lane))))),
    ];
}

/* A stage, and all ranks from top to bottom. */
function drawStage(lane) {
    const shown = shownRows();
    return [
        html("h3", {}, LANES[lane]),
        html("div", { class: "ends" }, html("span", {}, shown[0].name),
             shown.length > 1 && html("span", {}, shown[shown.length - 1].name)),
        drawLanes(shown.map(row => [row, lane]), LANES[lane]),
        html("div", { class: "shares" }, html("span", {}, percent(meanShare(lane)))),
    ];
}

function drawAxis() {
    const begin = view.from * course.width_s, end = view.to * course.width_s;
    const { name, s } = timeUnit(end - begin);
    const labels = ticks(begin / s, (begin + 0.97 * (end - begin)) / s, 6).map(at => html("span", {
        class: at === 0 && "first",
        style: `left: ${(100 * (at * s - begin) / (end - begin)).toFixed(2)}%` }, digits(at, 6)));
    return [html("div", { class: "axis" }, labels),
            html("p", { class: "unit" }, `${name} since the first stage began`)];
}

/* What else went on while the device waited. */
function waitingText() {
    const shown = shownRows(), busy = {};
    let waited = 0;
    for (const { lanes } of shown)
        for (let i = view.from; i < view.to; i++) {
            const idle = lanes.waits.shares[i];
            waited += idle;
            for (const lane of usedLanes)
                if (lanes[lane])
                    busy[lane] = (busy[lane] || 0) + idle * lanes[lane].shares[i] / FULL;
        }
    const others = usedLanes.filter(lane => !["gemm", "check", "waits"].includes(lane))
        .map(lane => `${LANES[lane]} ${percent((busy[lane] || 0) / waited)}`)
        .map(text => text.replace(" %", "\u00a0%"));
    const part = waited / (FULL * shown.length * viewBins());
    const who = onGpu ? "The GPU" : "The threads that multiply";
    return `${who} waited ${percent(part)} of the time` + (waited > 0 && others.length
        ? `; in that time others were at work: ${others.join(", ")}.` : ".");
}

function drawTimeline() {
    const shown = shownRows(), content = byId("lanes");
    content.replaceChildren();
    const height = !view.byRank && shown.length > 2 * SHADES ? 5
        : !view.byRank && shown.length > RANKS_APART ? 8 : 15;
    content.style.setProperty("--h", `${height}px`);
    if (shown.length === 0)
        content.append(html("p", {}, "No rank is shown."));
    else
        content.append(...(view.byRank ? shown.map(drawRank) : usedLanes.map(drawStage)).flat(),
                       ...drawAxis());
    byId("waiting").textContent = shown.length > 0 ? waitingText() : "";
    byId("shown").textContent = `Ranks shown: ${shown.length} of ${rows.length}` +
                                (rows.length < report.machine.ranks ? " groups" : "");
    byId("out").disabled = byId("all").disabled = viewBins() === course.bins;
    byId("earlier").disabled = view.from === 0;
    byId("later").disabled = view.to === course.bins;
    byId("in").disabled = viewBins() <= LEAST_BINS;
}

/* Show these bins, or as many of them as there are. */
function look(from, to) {
    const count = Math.min(course.bins, Math.max(LEAST_BINS, Math.round(to - from)));
    view.from = Math.min(course.bins - count, Math.max(0, Math.round(from)));
    view.to = view.from + count;
    drawTimeline();
    drawProgress(byId("progress"));
}

function timeControls() {
    const zoom = factor => {
        const middle = (view.from + view.to) / 2, half = factor * viewBins() / 2;
        look(middle - half, middle + half);
    };
    const move = part => look(view.from + part * viewBins(), view.to + part * viewBins());
    const order = html("select", { id: "order", "aria-label": "order of the lanes" },
        html("option", { value: "rank", selected: view.byRank }, "by rank"),
        html("option", { value: "stage", selected: !view.byRank }, "by stage"));
    order.addEventListener("change", () => {
        view.byRank = order.value === "rank";
        drawTimeline();
    });
    const made = { in: button("+", "zoom in", () => zoom(0.5)),
                   out: button("−", "zoom out", () => zoom(2)),
                   earlier: button("←", "earlier", () => move(-0.5)),
                   later: button("→", "later", () => move(0.5)),
                   all: button("whole run", "show the whole run", () => look(0, course.bins)) };
    for (const [id, each] of Object.entries(made))
        each.id = id;
    return html("div", { class: "controls" }, order, Object.values(made),
                html("span", {}, "or drag across the time to zoom in"));
}

/* A box for each row, of which those that are ticked are shown. */
function rankControls() {
    const boxes = rows.map(row => {
        const box = html("input", { type: "checkbox", checked: true });
        box.addEventListener("change", () => {
            row.hidden = !box.checked;
            drawTimeline();
        });
        return { box, label: html("label", {}, box, ` ${row.name} `, row.hosts) };
    });
    const tick = checked => () => {
        boxes.forEach(({ box }, i) => { rows[i].hidden = !(box.checked = checked); });
        drawTimeline();
    };
    return html("details", {}, html("summary", { id: "shown" }),
        html("div", { class: "controls" }, button("all", "show all ranks", tick(true)),
             button("none", "hide all ranks", tick(false))),
        html("div", { class: "choice" }, boxes.map(({ label }) => label)));
}

/* What is dragged across is what is shown next. */
function dragToZoom(content) {
    let begin = null;
    const box = () => content.querySelector(".lanes").getBoundingClientRect();
    const mark = html("div", { class: "selection", hidden: true });
    const edges = event => [begin, event.clientX].sort((a, b) => a - b);
    content.addEventListener("pointerdown", event => {
        if (event.button !== 0 || !event.target.closest(".lanes"))
            return;
        begin = event.clientX;
        content.append(mark);
        content.setPointerCapture(event.pointerId);
    });
    content.addEventListener("pointermove", event => {
        if (begin === null)
            return;
        const { left, right } = box(), [x0, x1] = edges(event);
        const origin = content.getBoundingClientRect().left;
        mark.hidden = x1 - x0 < 3;
        mark.style.left = `${Math.max(x0, left) - origin}px`;
        mark.style.width = `${Math.max(0, Math.min(x1, right) - Math.max(x0, left))}px`;
    });
    const end = zooms => event => {
        const [x0, x1] = begin === null ? [0, 0] : edges(event);
        begin = null;
        mark.hidden = true;
        if (zooms && x1 - x0 >= 3)
            look(binAt(x0, box()), binAt(x1, box()) + 1);
    };
    content.addEventListener("pointerup", end(true));
    content.addEventListener("pointercancel", end(false));
}

function drawTimelineSection(into) {
    if (!course)
        return;
    const ranks = report.machine.ranks, content = html("div", { class: "timeline", id: "lanes" });
    const groups = ranks > rows.length ? `; ${ranks} ranks in ${rows.length} groups` : "";
    into.append(html("h2", {}, "Timeline"),
        html("p", {}, "The stronger the colour, the larger the part of each " +
             `${digits(1e3 * course.width_s, 3)} ms in which a stage was at work${groups}.`),
        html("p", { id: "waiting" }), timeControls(), rankControls(), content);
    dragToZoom(content);
    drawTimeline();
}

/* ---- Progress ---- */

const CURVES = { read: "read", gemm: "multiplied", write: "written" };
const amountOf = stage => report.stages[stage][stage === "gemm" ? "flops" : "bytes"];

/* The part of each stage's amount that was done by the end of each bin, and before the first. */
function doneParts(stage) {
    let done = 0;
    return [0, ...course.amounts[stage].map(amount => (done += amount) / amountOf(stage))];
}

/* What is done at the bin under the pointer, and how fast. */
function progressAt(parts, bin) {
    const rate = (stage, amount) => stage === "gemm" ? flopsText(amount) : rateText(amount);
    return Object.keys(parts).map(stage => `${CURVES[stage]} ${percent(parts[stage][bin + 1], 1)}` +
        `, at ${rate(stage, course.amounts[stage][bin] / course.width_s)}`).join("\n");
}

function drawProgress(into) {
    if (!course)
        return;
    const begin = view.from * course.width_s, end = view.to * course.width_s;
    const c = chart([begin, end], [0, 1], "progress"), { name, s } = timeUnit(end - begin);
    const parts = {};
    ticks(begin / s, end / s, 6).forEach(at => c.tickX(at * s, digits(at, 6)));
    [0, 0.25, 0.5, 0.75, 1].forEach(part => c.tickY(part, percent(part)));
    for (const stage of ["read", "write", "gemm"]) {
        if (!(amountOf(stage) > 0))
            continue;
        parts[stage] = doneParts(stage);
        const points = parts[stage].slice(view.from, view.to + 1).map((part, i) =>
            `${c.x((view.from + i) * course.width_s).toFixed(1)} ${c.y(part).toFixed(1)}`);
        c.picture.append(svg("path", { class: `curve ${stage}`, d: `M${points.join("L")}` }));
    }
    c.labelX(name);
    const { left, top, width, height, right, bottom } = CHART;
    const field = svg("rect", { x: left, y: top, width: width - left - right,
                                height: height - top - bottom, fill: "transparent",
                                "data-tip": "progress" });
    places.set(field, event => {
        const bin = binAt(event.clientX, field.getBoundingClientRect());
        return `${binText(bin)}\n${progressAt(parts, bin)}`;
    });
    c.picture.append(field);
    into.replaceChildren(html("h2", {}, "Progress"), c.picture, html("ul", { class: "legend" },
        Object.entries(CURVES).map(([stage, words]) => html("li", {}, html("i", { class: stage }),
            `${words}: ${(stage === "gemm" ? workText : bytesText)(amountOf(stage))}`))));
}
