"""What keeps a page from a reader who does not see it or has no mouse, found without a browser."""

import re
from html.parser import HTMLParser

NAMED = {"a", "button", "summary", "select", "textarea", "input", "h1", "h2", "h3", "h4"}


class _Reader(HTMLParser):
    def __init__(self, text: str):
        super().__init__()
        self.faults, self.open, self.ids, self.level, self.labels, self.marks = [], [], set(), 0, 0, 0
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        own = {name: value or "" for name, value in attrs}
        name, where = own.get("aria-label") or own.get("alt", ""), self.get_starttag_text()[:80]
        if own.get("id") in self.ids:
            self.faults.append(f"id twice: {where}")
        self.ids |= {own["id"]} if "id" in own else set()
        if tag == "html" and not own.get("lang"):
            self.faults.append("no language")
        if tag == "img" and not name:
            self.faults.append(f"no alternative text: {where}")
        if tag == "svg":
            if not self.marks and own.get("aria-hidden") != "true" and not (own.get("role") and name):
                self.faults.append(f"no alternative text: {where}")
            self.marks += 1
        if tag == "th" and own.get("scope") not in ("row", "col"):
            self.faults.append(f"no scope: {where}")
        if tag[0] == "h" and tag[1:].isdigit():
            if int(tag[1]) > self.level + 1:
                self.faults.append(f"a level of headings is left out: {where}")
            self.level = int(tag[1])
        self.labels += tag == "label"
        for one in self.open:
            one[2] += name
        if tag == "input" and not (name or self.labels):
            self.faults.append(f"no name: {where}")
        elif tag in NAMED - {"input"}:
            self.open.append(
                [tag, where, "labelled" if tag in ("select", "textarea") and self.labels else name]
            )

    def handle_data(self, data):
        for one in self.open:
            one[2] += data.strip() if one[0] not in ("select", "textarea") else ""

    def handle_endtag(self, tag):
        self.marks -= tag == "svg"
        self.labels -= tag == "label"
        if self.open and self.open[-1][0] == tag and not self.open[-1][2]:
            self.faults.append(f"no name: {self.open[-1][1]}")
        if self.open and self.open[-1][0] == tag:
            self.open.pop()


def faults(page: str) -> list[str]:
    """Return a line for each image, control, head of a table and heading of a page that has no name or place."""
    return _Reader(page).faults


def colours(css: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return the colours that a style sheet names, for light and for dark pages."""
    light, dark = (
        dict(re.findall(r"--([\w-]+): (#\w+)", block)) for block in re.findall(r":root {(.*?)}", css, re.S)
    )
    return light, light | dark


def contrast(one: str, other: str) -> float:
    """Return the ratio of two colours' luminances as WCAG 2.2 defines it."""

    def luminance(colour: str) -> float:
        digits = colour[1:] if len(colour) == 7 else "".join(digit * 2 for digit in colour[1:])
        parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    low, high = sorted(map(luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)
