"""The runs of a bundle in order of case, side and run, read from its files one at a time.

**Rules**
1. A whole record stands at the path that its own case, side and run name; slim ones stand in order
   in files of their own.
2. The order is the plan's: nobody has to hold the runs to find out which comes next.
"""

import heapq
from collections.abc import Iterator, Mapping

import msgspec
import zstandard

from sidecar.gate import evidence as names
from sidecar.replay.record import EpisodeRecord, is_slim
from sidecar.replay.run import Pins

_SLIM_BYTES_MAX = 256 * 1024 * 1024
_ONE = msgspec.json.Decoder(EpisodeRecord)
Turn = tuple[int, str, str, int]


def runs_of(files: Mapping[str, bytes], pins: Pins) -> Iterator[tuple[str, EpisodeRecord]]:
    """Every run with the path of its file, in order.

    Raises ValueError, msgspec.DecodeError for what is no record.
    """
    places = {plan.case: number for number, plan in enumerate(pins.plans)}
    whole, slim = _whole(files, places), _slim(files, places)
    for _, path, run in heapq.merge(whole, slim, key=lambda one: one[0]):
        yield path, run


def _whole(
    files: Mapping[str, bytes], places: Mapping[str, int]
) -> Iterator[tuple[Turn, str, EpisodeRecord]]:
    for path in _paths(files, places):
        run = _ONE.decode(files[path])
        yield _turn(run, places), path, run


def _slim(
    files: Mapping[str, bytes], places: Mapping[str, int]
) -> Iterator[tuple[Turn, str, EpisodeRecord]]:
    for path in _slim_paths(files):
        for line in _lines(path, files[path]):
            run = _ONE.decode(line)
            if not is_slim(run):
                raise ValueError(f"{path} holds a record that is not slim")
            yield _turn(run, places), path, run


def _paths(files: Mapping[str, bytes], places: Mapping[str, int]) -> list[str]:
    folders = {names.run_folder(case): number for case, number in places.items()}

    def turn(path: str) -> tuple[int, str, str, int]:
        folder, _, name = path.rpartition("/")
        side, _, number = name.removesuffix(".json").rpartition("-")
        return folders.get(folder, len(folders)), folder, side, int(number)

    return sorted((path for path in files if path.startswith(names.RUNS)), key=turn)


def _slim_paths(files: Mapping[str, bytes]) -> list[str]:
    return sorted(path for path in files if path.startswith(names.SLIM))


def _turn(run: EpisodeRecord, places: Mapping[str, int]) -> Turn:
    return places.get(run.case, len(places)), run.case, run.side, run.run


def _lines(path: str, data: bytes) -> list[bytes]:
    try:
        if zstandard.frame_content_size(data) > _SLIM_BYTES_MAX:
            raise ValueError(f"{path} is larger than records are")
        text = zstandard.ZstdDecompressor().decompress(data, max_output_size=_SLIM_BYTES_MAX)
    except zstandard.ZstdError as error:
        raise ValueError(f"{path} cannot be unpacked: {error}") from None
    return text.splitlines()
