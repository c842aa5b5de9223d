"""The spelling of bytes as printable characters, which byte-level tokenizers share.

Owns the alphabet and its reading. Must never know a tokenizer library.
"""

from __future__ import annotations


def _alphabet() -> dict[str, int]:
    """GPT-2's spelling of bytes: printable Latin-1 stands for itself, the other bytes, in order, for U+0100 onwards."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    alphabet = {chr(byte): byte for byte in printable}
    alphabet.update({chr(0x100 + index): byte for index, byte in enumerate(others)})
    return alphabet


_BYTE_OF_CHARACTER = _alphabet()


def byte_level_bytes(spelling: str) -> bytes:
    """The bytes that ``spelling`` stands for; its own text where it has other characters.

    An added token (a run of spaces, say) is not spelt in the alphabet.
    """
    try:
        return bytes(_BYTE_OF_CHARACTER[character] for character in spelling)
    except KeyError:
        return spelling.encode()
