"""Read and change messages of Protocol Buffers part by part, where Lance exposes a message but not its fields."""

from collections.abc import Iterator, Sequence

# A part of a message: the number of its field, and its bytes including the key.
Part = tuple[int, bytes]


def iter_parts(message: bytes) -> Iterator[Part]:
    """Yield the parts of a message in their order."""
    position = 0
    while position < len(message):
        start = position
        # A part is a key, then a value whose size follows from the wire type in the key.
        key, position = _read_varint(message, position)
        # The lowest three bits are the wire type: varint, 64 bits, length-delimited, 32 bits.
        match key & 7:
            case 0:
                _, position = _read_varint(message, position)
            case 1:
                position += 8
            case 2:
                size, position = _read_varint(message, position)
                position += size
            case 5:
                position += 4
            case wire_type:
                msg = f"Lance wrote a message with the unknown wire type {wire_type}"
                raise ValueError(msg)
        yield key >> 3, message[start:position]


def iter_integers(message: bytes, number: int) -> Iterator[int]:
    """Yield the unsigned values of an integer field."""
    for part, data in iter_parts(message):
        if part == number:
            yield read_integer(data)


def read_integer(part: bytes) -> int:
    """Return the unsigned value of the part of an integer field."""
    # The key of a field from 16 on takes more than one byte.
    _, start = _read_varint(part, 0)
    return _read_varint(part, start)[0]


def read_signed(message: bytes, number: int) -> int:
    """Return the signed value of an integer field; 0, the default, is not stored."""
    value = next(iter_integers(message, number), 0)
    # A negative number is stored as 64-bit two's complement.
    return value - (1 << 64) if value >> 63 else value


def read_text(message: bytes, number: int) -> str:
    """Return the value of a text field, by default empty."""
    for part, data in iter_parts(message):
        if part == number:
            _, start = _read_varint(data, 0)
            size, start = _read_varint(data, start)
            return data[start : start + size].decode()
    return ""


def join_parts(parts: Sequence[Part]) -> bytes:
    """Return a message from its parts, in the order of their field numbers."""
    # A stable sort: the values of a repeated field keep their order.
    return b"".join(data for _, data in sorted(parts, key=lambda part: part[0]))


def encode_integer(number: int, value: int) -> Part:
    """Return the part of an integer field with a number below 16; 0, the default, takes no bytes."""
    if not value:
        return number, b""
    # The wire type of integers is 0; negative ones are written as 64-bit two's complement.
    return number, bytes([number << 3]) + _encode_varint(value & ((1 << 64) - 1))


def encode_text(number: int, text: str) -> Part:
    """Return the part of a text field with a number below 16."""
    return encode_bytes(number, text.encode())


def encode_bytes(number: int, data: bytes) -> Part:
    """Return the part of a field of bytes, or of a message, with a number below 16."""
    # The wire type 2: the length, then as many bytes.
    return number, bytes([number << 3 | 2]) + _encode_varint(len(data)) + data


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    """Return a base-128 varint, and the position after it."""
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:  # the highest bit marks that more bytes follow
            return value, position


def _encode_varint(value: int) -> bytes:
    # Seven bits per byte, the lowest first.
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
