/* What the page's parts are made of: elements, quantities, what is under the pointer, charts.  The
 * build puts the scripts together: this one, page_timeline.js, page.js.  All text goes into the
 * page as text, never as markup. */
"use strict";

const jsonOf = id => JSON.parse(document.getElementById(id).textContent);
const report = jsonOf("report-json");
const course = jsonOf("course-json");

const onGpu = report.machine && report.machine.device === "gpu";
const STAGES = {
    read: "disk read", cache: "host cache", network: "network",
    in: onGpu ? "host to device" : "copies in", gemm: "multiply", check: "online check",
    out: onGpu ? "device to host" : "copies out", write: "disk write",
};
/* What a run that the stage limits spends its time with. */
const WORK = {
    read: "reading the files", cache: onGpu ? "copies in host memory" : "copies in memory",
    network: "the network", in: onGpu ? "copies to the GPU" : "copies in memory",
    gemm: "multiplying", check: "the check",
    out: onGpu ? "copies from the GPU" : "copies in memory", write: "writing C",
};
const LANES = { ...STAGES, waits: onGpu ? "GPU waits" : "threads wait" };
const LANE_ORDER = ["read", "cache", "network", "in", "gemm", "check", "waits", "out", "write"];
/* The stages that need what a simulation knows. */
const RESOURCES = {
    "disk read": "read", "disk to node": "read", "network send": "network",
    "network receive": "network", "host cache": "cache", "host to device": "in", multiply: "gemm",
    "device to host": "out", "node to disk": "write", "disk write": "write",
};
const FULL = 1000; // of a bin: busy all the time

/* ---- Elements ---- */

/* What would steer the text around it is replaced. */
function plain(text) {
    return String(text).replace(
        /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]/g, "?");
}

const isThere = value => value !== null && value !== undefined && value !== false;

/* The number, if it is one that can be shown. */
function finite(value) {
    if (!Number.isFinite(value))
        throw new TypeError(`${value} is not a number`);
    return value;
}

/* What is not there is left out.  A number is no text: of `count && "words"` it would be what is
 * left, so a number becomes text by what gives it its unit. */
function fill(element, attributes, children) {
    for (const [name, value] of Object.entries(attributes).filter(([, given]) => isThere(given)))
        element.setAttribute(name, value === true ? ""
            : plain(typeof value === "number" ? finite(value) : value));
    for (const child of children.flat(2).filter(isThere)) {
        if (typeof child !== "string" && !(child instanceof Node))
            throw new TypeError(`${child} is not text`);
        element.append(child instanceof Node ? child : plain(child));
    }
    return element;
}

function html(name, attributes = {}, ...children) {
    return fill(document.createElement(name), attributes, children);
}

function svg(name, attributes = {}, ...children) {
    return fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

const byId = id => document.getElementById(id);
const button = (label, says, act) => {
    const made = html("button", { type: "button", "aria-label": says, title: says }, label);
    made.addEventListener("click", act);
    return made;
};

/* ---- Quantities ---- */

function scaled(value, step, units) {
    let i = 0;
    finite(value);
    for (; value >= step * 0.9995 && i + 1 < units.length; i++)
        value /= step;
    const decimals = value >= 99.95 || (i === 0 && step === 1024) ? 0 : value >= 9.995 ? 1 : 2;
    return `${value.toFixed(decimals)} ${units[i]}`;
}

const prefixes = (first, unit) => [first, ..."kMGTPEZ"].map(prefix => prefix + unit);
const bytesText = value => scaled(value, 1024, ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"]);
const rateText = value => scaled(value, 1000, prefixes("", "B/s"));
const flopsText = value => scaled(value, 1000, prefixes("", "FLOP/s"));
const workText = value => scaled(value, 1000, prefixes("", "FLOP"));
const countText = value => String(finite(value));
const digits = (value, count) => 
    String(Number(finite(value).toPrecision(count))).replace("e+", "e");

/* A little is not nothing. */
function percent(part, decimals = 0) {
    const text = (100 * finite(part)).toFixed(decimals);
    return part > 0 && Number(text) === 0 ? `<${10 ** -decimals} %` : `${text} %`;
}

function timeText(seconds) {
    if (finite(seconds) < 5e-5) // what would be 0.0 ms
        return `${(seconds * 1e6).toFixed(0)} µs`;
    if (seconds < 1)
        return `${(seconds * 1e3).toFixed(1)} ms`;
    if (seconds < 600)
        return `${seconds.toFixed(2)} s`;
    const whole = Math.floor(seconds), two = value => String(value).padStart(2, "0");
    return `${Math.floor(whole / 3600)}:${two(Math.floor(whole / 60) % 60)}:${two(whole % 60)}`;
}

/* The unit that suits times up to so many seconds. */
function timeUnit(seconds) {
    const units = [["hours", 3600], ["minutes", 60], ["seconds", 1], ["milliseconds", 1e-3]];
    const [name, unit_s] = units.find(([, s]) => seconds >= 2 * s) || units[3];
    return { name, s: unit_s };
}

/* A round number, of which about so many make `length`. */
function roundStep(length, about) {
    const rough = length / about, decade = 10 ** Math.floor(Math.log10(rough));
    const digit = rough / decade;
    return decade * (digit > 5 ? 10 : digit > 2 ? 5 : digit > 1 ? 2 : 1);
}

/* The multiples of a round number from `begin` to `end`, about so many. */
function ticks(begin, end, about) {
    const step = roundStep(end - begin, about), found = [];
    for (let i = Math.ceil(begin / step - 1e-9); i * step <= end; i++)
        found.push(i * step);
    return found;
}

/* ---- What is under the pointer ---- */

const tip = byId("tip");

function showTip(text, event) {
    tip.textContent = text;
    tip.hidden = false;
    const { width, height } = tip.getBoundingClientRect();
    const x = Math.min(event.clientX + 12, innerWidth - width - 4);
    const below = event.clientY + 16;
    const y = below + height > innerHeight ? event.clientY - height - 12 : below;
    tip.style.left = `${Math.max(4, x)}px`;
    tip.style.top = `${Math.max(4, y)}px`;
}

/* By elements: what there is to say of a place in them, beside their data-tip. */
const places = new WeakMap();

function pointAt(event) {
    const element = event.target instanceof Element ? event.target.closest("[data-tip]") : null;
    document.querySelectorAll(".pointed").forEach(cell => cell.classList.remove("pointed"));
    if (!element) {
        tip.hidden = true;
        return;
    }
    const place = places.get(element);
    showTip(element.dataset.tip + (place ? `\n${place(event)}` : ""), event);
    if (element.dataset.cell)
        document.querySelectorAll(`[data-cell="${element.dataset.cell}"]`)
            .forEach(cell => cell.classList.add("pointed"));
}

/* ---- Charts ---- */

const CHART = { width: 460, height: 290, left: 60, right: 12, top: 12, bottom: 44 };

/* A chart with these extents: its picture, which grows, and where its values are. */
function chart(xs, ys, label) {
    const { width, height, left, right, top, bottom } = CHART;
    const picture = svg("svg", { class: "chart", role: "img", "aria-label": label,
                                 viewBox: `0 0 ${width} ${height}` });
    const part = (value, ends) => (value - ends[0]) / (ends[1] - ends[0]);
    const x = value => left + (width - left - right) * part(value, xs);
    const y = value => height - bottom - (height - top - bottom) * part(value, ys);
    const line = (cls, x0, y0, x1, y1) => picture.append(svg("path", {
        class: cls, d: `M${x0.toFixed(1)} ${y0.toFixed(1)}L${x1.toFixed(1)} ${y1.toFixed(1)}` }));
    const text = (attributes, words) => picture.append(svg("text", attributes, words));
    return { picture, x, y, line, text,
        tickX(value, words) {
            line("grid", x(value), top, x(value), height - bottom);
            text({ x: x(value).toFixed(1), y: height - bottom + 16, "text-anchor": "middle" },
                 words);
        },
        tickY(value, words) {
            line("grid", left, y(value), width - right, y(value));
            text({ x: left - 6, y: (y(value) + 4).toFixed(1), "text-anchor": "end" }, words);
        },
        labelX(words) {
            text({ class: "label", x: (left + width - right) / 2, y: height - 8,
                   "text-anchor": "middle" }, words);
        } };
}
