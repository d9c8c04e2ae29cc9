"""The encoding of text that is not in UTF-16: UTF-8, or GB18030, of which GBK and GB2312 are parts.

Programs on a Chinese Windows save text in GBK without saying so. Its bytes are nearly never UTF-8, so what is UTF-8 is
taken for that; of other text, the encoding is that in which more of it makes sense.
"""

from __future__ import annotations

import codecs
import re

UTF_8, GB_18030 = "utf-8", "gb18030"

NOT_UTF_8 = f"its text is not in UTF-8: read as {GB_18030.upper()}, which GBK is a part of"
"""The note on another encoding."""

_HIGH = re.compile(rb"[\x80-\xff]")
_OF_UTF_8 = re.compile(  # characters of more than one byte
    rb"[\xc2-\xdf][\x80-\xbf]|\xe0[\xa0-\xbf][\x80-\xbf]|[\xe1-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}"
)
_OF_GB_18030 = re.compile(rb"[\x81-\xfe][\x40-\x7e\x80-\xfe]|[\x81-\xfe][0-9][\x81-\xfe][0-9]")
_OF_GB_2312 = re.compile(rb"[\xa1-\xf7][\xa1-\xfe]")  # nearly all of what is written


def encoding_of(text: bytes) -> str:
    """Return the encoding of a text, of which the last character may be cut."""
    try:
        codecs.getincrementaldecoder(UTF_8)().decode(text)
    except UnicodeDecodeError:
        high = len(_HIGH.findall(text))
        in_utf_8, in_gb_18030, in_gb_2312 = (
            sum(len(_HIGH.findall(part)) for part in characters.findall(text))
            for characters in (_OF_UTF_8, _OF_GB_18030, _OF_GB_2312)
        )
        # Of text in GBK about a sixth of the bytes are UTF-8 by chance, of damaged UTF-8 nearly all. A few stray bytes
        # are characters of GB18030 together with what follows them, but none of GB2312.
        is_gb = 2 * in_utf_8 < high and in_gb_18030 > in_utf_8 and 2 * in_gb_2312 >= high
        return GB_18030 if is_gb else UTF_8
    return UTF_8


def as_text(content: bytes) -> tuple[str, str, int]:
    """Return a text, its encoding, and how many parts of it cannot be decoded: they are U+FFFD."""
    encoding = encoding_of(content)
    text = content.decode(encoding, "replace")
    return text, encoding, text.count("\ufffd") - content.decode(encoding, "ignore").count("\ufffd")


class ToUtf8:
    """Converts blocks of a text to UTF-8; the first block that is not ASCII tells the encoding.

    Attributes
    ----------
    encoding
        The encoding; UTF-8 until another one is seen.
    """

    def __init__(self) -> None:
        self.encoding = UTF_8
        self._is_known = False
        self._decoder = codecs.getincrementaldecoder(GB_18030)("replace")

    def __call__(self, block: bytes) -> bytes:
        """Return a block in UTF-8; no bytes end the text."""
        if not self._is_known and not block.isascii():
            self._is_known, self.encoding = True, encoding_of(block)
        if self.encoding == UTF_8:
            return block
        return self._decoder.decode(block, not block).encode("utf-8", "replace")
