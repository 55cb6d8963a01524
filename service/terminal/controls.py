"""Control characters in texts of strangers."""

DIRECTIONS = (0x61C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
"""Marks that reorder the text around them."""
_CONTROLS = (*range(0x09), *range(0x0B, 0x20), *range(0x7F, 0xA0))
"""All but tabs and line ends."""
_SPELLED = {code: f"\\x{code:02x}" for code in _CONTROLS} | {
    code: f"\\u{code:04x}" for code in DIRECTIONS
}


def spell_controls(text: str) -> str:
    """Return a text that moves no cursor and colours nothing.

    Names and reasons come from strangers: their control characters are spelled out.
    """
    return text.translate(_SPELLED)
