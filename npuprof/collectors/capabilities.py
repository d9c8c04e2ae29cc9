"""What a front end cannot do is refused before the profiled code runs, never dropped."""

from __future__ import annotations

from npuprof.collectors import host_tools
from npuprof.errors import OptionsError
from npuprof.options import SPECIFICATION, Options, has_value, lacks
from npuprof.options.specification import FRONT_ENDS

# Their markers, or their moments alone (torch_npu), have no field for a domain: the recording keeps it.
DOMAINS_KEPT_BESIDE = frozenset({"acl", "simulator", "msprof", "kineto", "torch_npu"})


def check(collector: str, options: Options) -> None:
    """Refuse options that a front end lacks and that were given another value than their default.

    So are host samples whose programs this machine lacks.

    Parameters
    ----------
    collector
        The front end's name.
    options
        What to collect.

    Raises
    ------
    OptionsError
        Naming the option, the front end, the reason and the front ends that have it.
    """
    for name, option in SPECIFICATION.items():
        for word, having in option.only.items():
            if word in (getattr(options, name) or ()) and not has_value(collector, name, word):
                raise OptionsError(
                    f"{collector} has no {word} among {name}: leave it out, or use --collector {', '.join(having)}",
                    name,
                )
    usual = Options(level=options.level, activities=options.activities, collector=options.collector)
    for name, option in SPECIFICATION.items():
        default = option.usual if name == "level" else getattr(usual, name)
        if getattr(options, name) != default and (reason := lacks(collector, name)):
            having = tuple(other for other in FRONT_ENDS if not lacks(other, name))
            elsewhere = f", or use one that has it (--collector {', '.join(having)})" if having else ""
            raise OptionsError(f"{collector} has no {name}: {reason}. Leave it out{elsewhere}", name)
    if collector != "simulator":
        host_tools.check(options)
