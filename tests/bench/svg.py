"""What pictures share: a style for light and dark mode with up to three series (s0 lines, f0 marks), and text."""
from html import escape

STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #24292f; }
  .title { font-weight: 600; font-size: 15px; } .small { font-size: 11px; fill: #57606a; }
  .axis { stroke: #d0d7de; } polyline { fill: none; stroke-width: 2; }
  .s0 { stroke: #0969da; } .s1 { stroke: #bf8700; } .s2 { stroke: #8250df; }
  .f0 { fill: #0969da; } .f1 { fill: #bf8700; } .f2 { fill: #8250df; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; } .small { fill: #8d96a0; } .axis { stroke: #30363d; }
    .s0 { stroke: #4493f8; } .s1 { stroke: #d29922; } .s2 { stroke: #a371f7; }
    .f0 { fill: #4493f8; } .f1 { fill: #d29922; } .f2 { fill: #a371f7; }
  }"""


def text(x, y, words, kind="", anchor="start"):
    return f'<text x="{x:.0f}" y="{y:.0f}" class="{kind}" text-anchor="{anchor}">{escape(words)}</text>'
