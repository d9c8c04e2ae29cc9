"""What one part of the campaign tried and found."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Tally:
    """The counts of a part.

    Attributes
    ----------
    part
        Its name, such as ``fuzz database``.
    tried
        Inputs, kills, interrupts or cells.
    crashes
        Errors that are not npuprof's own, and processes that died.
    hangs
        What did not end within its time.
    losses
        Rows or recordings that were lost without a note, and files that were harmed.
    peak_mib
        The largest resident memory of a process.
    seconds
        How long it took.
    finds
        One line for each distinct find.
    """

    part: str
    tried: int = 0
    crashes: int = 0
    hangs: int = 0
    losses: int = 0
    peak_mib: int = 0
    seconds: float = 0.0
    finds: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        """Whether nothing was found, and something was tried."""
        return self.tried > 0 and not (self.crashes or self.hangs or self.losses or self.finds)

    def add(self, other: Tally) -> None:
        """Add the counts of another run of the part."""
        self.tried += other.tried
        self.crashes += other.crashes
        self.hangs += other.hangs
        self.losses += other.losses
        self.peak_mib = max(self.peak_mib, other.peak_mib)
        self.seconds += other.seconds
        self.finds += [find for find in other.finds if find not in self.finds]


def table(tallies: Iterable[Tally]) -> str:
    """Return the tallies as lines of text, one a part, then the finds."""
    head = f"{'part':<24}{'tried':>9}{'crashes':>9}{'hangs':>7}{'losses':>8}{'peak MiB':>10}{'seconds':>9}"
    rows = [
        f"{one.part:<24}{one.tried:>9}{one.crashes:>9}{one.hangs:>7}{one.losses:>8}{one.peak_mib:>10}{one.seconds:>9.0f}"
        for one in tallies
    ]
    finds = [f"{one.part}: {find}" for one in tallies for find in one.finds]
    return "\n".join([head, *rows, *finds])


def peak_mib() -> int:
    """Return the largest resident memory that this process had; Linux only."""
    status = Path("/proc/self/status").read_text()
    kib = next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))
    return int(kib) >> 10


def reset_peak() -> None:
    """Reset the peak that :func:`peak_mib` returns; Linux only."""
    Path("/proc/self/clear_refs").write_text("5")
