"""Why the host keeps a device waiting, and what to do about it: one table for findings, reports and documentation.

To add a cause, add an entry to :data:`CAUSES`. The first entry that knows the innermost frame of a sampled stack wins;
of a line's text alone, the first one that knows a call in it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from npuprof.tables.info import Info

KEEPS = "{place} keep{s} the {device} waiting"


@dataclass(frozen=True)
class Cause:
    """A way to spend the device's idle time."""

    name: str  # its key
    where: str  # where the time goes, for the documentation
    action: str  # what to do about it on an NPU, in at most 15 words, with code in backticks
    example: str  # A line of code that has it
    frames: str = ""  # what matches a frame of a Python stack, `file:function`
    calls: str = ""  # what matches the dotted name of a call in a line's text
    # The causes of idle time that say so, by calls of the runtime and operators (`CAUSES`).
    causes: tuple[str, ...] = ()
    title: str = KEEPS  # what is wrong and where; the code follows after a colon
    # The action by device (`GPU`) or front end, where it is another.
    instead: Mapping[str, str] = field(default_factory=dict)

    def action_for(self, device: str, info: Info) -> str:
        """Return the action on a device, in the words of a front end, without a variable that is set so."""
        action = self.instead.get(info.collector) or self.instead.get(device) or self.action
        settings = re.findall(r"([A-Z_]+)=([\w:]+)", action)
        is_set = any(value.lower() in info.environment.get(name, "").lower() for name, value in settings)
        return self.action if is_set else action


FUSED = "fused"
"""The cause of findings that name an operator for a sequence of kernels."""
WAIT, LAUNCHES, LOADER, SLEEP, LOCK, OUTPUT, OTHER = "wait", "launches", "loader", "sleep", "lock", "output", "other"
SHORT, NOTEBOOK = "short", "notebook"
HOST_WORK = "host_work"
CAUSES = (
    Cause(
        SLEEP,
        "`time.sleep`, `Event.wait`, polling",
        "Remove the wait, or make it shorter.",
        "time.sleep(0.01)",
        frames=r"threading\.py:wait|asyncio/(base_events|events|runners|tasks)\.py:|tenacity/|backoff/",
        calls=r"(\w+\.)*sleep|(\w+\.)+(wait|is_set|poll|is_ready|done|query)|select\.\w+|signal\.pause",
    ),
    Cause(
        LOADER,
        "a DataLoader, an iterator, a generator used as a loader",
        "Prepare batches ahead: DataLoader workers, `prefetch_factor`, pinned memory.",
        "for batch in loader:",
        frames=r"torch/utils/data/|mindspore/dataset/|tensorflow/python/data/|webdataset/|nvidia/dali/|"
        r"datasets/(iterable_dataset|arrow_dataset|formatting)",
        calls=r"next|anext|(\w+\.)*\w*(loader|data_?iter|iterator)\w*(\.\w+)*|"
        r"(\w+\.)*(next|get|load|sample|fetch|read|make)_?batch\w*",
        causes=("dataloader",),
        instead={
            "mindspore": "Prepare batches ahead: more `num_parallel_workers`, a larger `prefetch_size`.",
            "tensorflow": "Prepare batches ahead: `num_parallel_calls=tf.data.AUTOTUNE`, and `prefetch()` last.",
        },
    ),
    Cause(
        "read",
        "`open`, `read`, `np.load`, `json`, `pickle`, `torch.load`, image decoding",
        "Read ahead in a thread or process, cache, or use a faster format.",
        "images = np.load(path)",
        frames=r"numpy/lib/\S*:(load\w*|genfromtxt|fromregex|read_array\w*|_read\w*)|json/(decoder|__init__)\.py:loads?|"
        r"json/(decoder|scanner)\.py:|pickle\.py:_?loads?|torch/serialization\.py:\w*load\w*|PIL/|(^|/)cv2/|imageio/|"
        r"pandas/io/\S*:\w*(read|parse)\w*|(gzip|lzma|bz2|_compression|csv|configparser|tarfile)\.py:|"
        r"zipfile\S*:(read\w*|open|_read\w*|__init__|_RealGetContents)|"
        r"<frozen codecs>:|codecs\.py:|pathlib\S*:(read_\w+|open)|h5py/|pyarrow/\S*:read\w*|torchvision/io/|"
        r"torchaudio/|soundfile|skimage/io|safetensors/\S*:load\w*|requests/|urllib/|urllib3/|http/client\.py:|socket\.py:|ssl\.py:|"
        r"httpx/|aiohttp/|xml/|yaml/|librosa/|tokenizers/|sqlite3/|base64\.py:|mindspore/train/serialization\.py:load",
        calls=r"open|(\w+\.)*(np|numpy)\.(load\w*|fromfile|genfromtxt|memmap)|(json|pickle|torch|yaml|joblib|ms|mindspore|"
        r"marshal|toml|tomllib|safetensors\.torch|orjson|ujson|msgpack|cPickle|dill)\.(\w*load\w*|unpackb)|"
        r"(Image|gzip|bz2|lzma|h5py|zipfile|tarfile|wave)\.\w+|(\w+\.)*(imread|imdecode|imread_v2)|"
        r"(pd|pandas|pl|pq|csv|pyarrow)\.(read_\w+|reader|DictReader|scan_\w+)|(\w+\.)+(read|readline|readlines|read_text|"
        r"read_bytes|readinto|recv|decode_\w+|decompress)|(requests|httpx)\.\w+|(\w+\.)*urlopen|"
        r"load_(file|dataset|image|state_dict|checkpoint)|os\.(listdir|scandir|walk|stat|read)|glob\.i?glob|base64\.\w+",
    ),
    Cause(
        HOST_WORK,
        "`np.random`, NumPy or pandas work on the host",
        "Compute it before the loop, or on the device.",
        "noise = np.random.normal(size=shape)",
        frames=r"numpy/|pandas/|scipy/|sklearn/|(^|/)random\.py:|statistics\.py:|torchvision/transforms/|albumentations/|"
        r"numexpr/|polars/|networkx/|(^|/)copy\.py:|heapq\.py:|transformers/\S*tokenization|fractions\.py:|_pydecimal\.py:",
        calls=r"(np|numpy|pd|pandas|pl|scipy|random|cv2|sp|hashlib|zlib|copy|math|statistics)(\.\w+)+|"
        r"(\w+\.)*\w*(rng|generator)\w*(\.\w+)+|sorted|deepcopy|sum|shuffle|"
        r"(\w+\.)+(sort|astype|groupby|apply|merge|shuffle|standard_normal|permutation|normal|uniform|integers|choice|"
        r"random|argsort|fillna|rolling|pivot_table|sort_values)",
    ),
    Cause(
        OUTPUT,
        "`print`, `logging`, `tqdm`, TensorBoard writers",
        "Print or log every n steps, or from a thread.",
        'print(f"step {step}")',
        frames=r"ipykernel/iostream\.py:|(^|/)logging/|tqdm/|tensorboard|(^|/)rich/|IPython/(core/display|lib/)|wandb/|"
        r"mlflow/|loguru/|ipywidgets/|matplotlib/(?!\S*:(savefig|print_))|pprint\.py:|absl/logging/|click/|swanlab/|"
        r"torch/_tensor_str",
        calls=r"print|pprint(\.\w+)?|(\w+\.)*(\w*log|\w*logger|logging|LOG|LOGGER)\.(debug|info|warning|warn|error|"
        r"exception|critical|log|success|trace)|tqdm(\.\w+)*|(\w+\.)*\w*(bar|pbar|progress)\w*\.\w+|"
        r"(\w+\.)*\w*(writer|board|wandb|mlflow)\w*\.(add_\w+|log\w*|flush|write\w*)|display|"
        r"(sys\.)?(stdout|stderr)\.\w+|clear_output|plt\.(show|plot|draw|pause)",
    ),
    Cause(
        "save",
        "`np.save`, `torch.save`, checkpoints",
        "Copy to the host, write in a thread, and save less often.",
        'torch.save(model.state_dict(), "last.pt")',
        frames=r"numpy/lib/\S*:(save\w*|_savez\w*|write_array\w*)|torch/serialization\.py:\w*save\w*|"
        r"pickle\.py:_?(dumps?|save\w*)|safetensors/\S*:save\w*|pandas/io/\S*:\w*(save|write|to_)\w*|"
        r"pandas/core/\S*:to_(csv|parquet|pickle|hdf|json|feather)|torch/distributed/checkpoint/|"
        r"zipfile\S*:(write\w*|close|_write_end_record)|matplotlib/\S*:(savefig|print_)|json/(__init__\.py:dump|encoder)|"
        r"pyarrow/\S*:write_\w+|pathlib\S*:write_\w+|mindspore/train/serialization\.py:\w*save\w*|shutil\.py:",
        calls=r"(\w+\.)*(np|numpy)\.save\w*|(\w+\.)+(savefig|to_(csv|parquet|pickle|hdf|json|feather)|save_pretrained|"
        r"tofile|save|save_file|write_text|write_bytes|fsync|writelines|dump)|open for writing|"
        r"(\w+\.)*(save|write)_?\w*(checkpoint|ckpt|state|model)\w*|save\w*|(f|fh|fp|file|out|handle|stream)\.write|"
        r"os\.(fsync|sync|replace|rename|write)|shutil\.\w+",
    ),
    Cause(
        "gc",
        "`gc.collect`, pauses of the collector",
        "Call `gc.freeze()`, then collect every n steps, all ranks in the same step.",
        "gc.collect()",
        calls=r"gc\.collect|collect",
        causes=("python_gc",),
        title="{place} collect{s} garbage while the {device} waits",
    ),
    Cause(
        "subprocess",
        "`subprocess`, `os.system`",
        "Start the process once, outside the loop.",
        'subprocess.run(["npu-smi", "info"])',
        frames=r"subprocess\.py:|multiprocessing/(popen_\w+|process|context)\.py:(start|_launch|_Popen|__init__)|"
        r"IPython/utils/_process_|pexpect/|(^|/|<frozen )os(\.py|>):popen",
        calls=r"(\w+\.)*(subprocess|sp)\.\w+|os\.(system|popen|spawn\w+|posix_spawn\w*|fork|wait\w*)|"
        r"check_output|check_call|Popen|get_ipython\.(system|getoutput)|(multiprocessing|mp)\.Process",
    ),
    Cause(
        LOCK,
        "a lock, `queue.get`, `Future.result`, `join`",
        "Make the other thread faster, or start it earlier.",
        "batch = batches.get()",
        frames=r"(^|/)queue\.py:|concurrent/futures/|threading\.py:(join|_wait_for_tstate_lock|__enter__|acquire|wait_for|"
        r"_acquire\w*)|multiprocessing/(queues|pool|connection|synchronize|managers|process)\.py:|joblib/|"
        r"asyncio/(locks|queues)\.py:|selectors\.py:",
        calls=r"(\w+\.)*\w*(lock|mutex|semaphore|condition|cond)\w*(\.(acquire|wait|wait_for))?|(\w+\.)*acquire|"
        r"(\w+\.)*(\w*(queue|inbox|jobs|tasks|batches|pipe|results|done)\w*|q|q\d|\w+_q|conn)\.(get|put|recv)|"
        r"(\w+\.)+(result|wait_for|shutdown|join of a thread)|(cf|futures|concurrent\.futures)\.(wait|as_completed)|"
        r"as_completed|wait|(\w+\.)*\w*pool\w*\.(map|starmap|imap\w*|apply)|asyncio\.(gather|wait\w*|run)",
    ),
    Cause(
        WAIT,
        "`.item()`, `float(t)`, `.cpu()`, `.tolist()`, `print(t)`, `if t:`, `synchronize`",
        "Keep the value on the device, and read it every n steps.",
        "losses.append(loss.item())",
        calls=r"(\w+\.)+(item|cpu|tolist|numpy|asnumpy|synchronize\w*|block_until_ready|nonzero)|synchronize\w*",
        causes=("sync_call",),
        title="{place} wait{s} for the {device}{in_every_step}",
        instead={
            "mindspore": "Keep the value on the device, and call `asnumpy()` every n steps.",
            "tensorflow": "Fetch values every n steps, or run several steps in each call.",
        },
    ),
    Cause(
        LAUNCHES,
        "many small launches of one line",
        "Batch or fuse the operators, or use graph mode.",
        "y = 0.5 * x * (1 + np.tanh(x))",
        causes=("forward_dispatch", "backward_dispatch", "other_operators"),
        title="{place} launch{es} {count}{a_step}",
        instead={
            "NPU": "Batch or fuse operators, use graph mode, or set `TASK_QUEUE_ENABLE=2`.",
            "GPU": "Batch or fuse the operators, or use `torch.compile` or CUDA graphs.",
            "mindspore": "Batch or fuse the operators, or use graph mode (`mindspore.jit`).",
            "tensorflow": "Run several steps in each call (`npu_device.set_npu_loop_size`).",
        },
    ),
    Cause(
        "optimizer",
        "an optimizer that updates tensor after tensor",
        "Use a fused optimizer: `torch_npu.optim.NpuFusedAdamW`.",
        "optimizer.step()",
        causes=("optimizer",),
        title="{place} launch{es} an optimizer of many kernels",
        instead={
            "GPU": "Use a fused optimizer: `fused=True` in `torch.optim`.",
            "mindspore": "Use a fused optimizer: `mindspore.mint.optim.FusedAdamW`.",
            "tensorflow": "Use a fused optimizer.",
        },
    ),
    Cause(
        "alloc",
        "allocating and freeing device memory",
        "Call no `empty_cache()` in the step.",
        "torch.npu.empty_cache()",
        calls=r"(\w+\.)*empty_cache",
        causes=("alloc",),
        title="{place} allocate{s} device memory while the {device} waits",
        instead={
            "NPU": "Set `PYTORCH_NPU_ALLOC_CONF=expandable_segments:True`; call no `empty_cache()` in the step.",
            "mindspore": "Call no `mindspore.runtime.empty_cache()` in the step; use fewer tensor sizes.",
            "tensorflow": "Use fewer sizes of tensors: pad batches and sequences.",
        },
    ),
    Cause(
        "compile",
        "compilation (`op_compile`, jit)",
        "Keep shapes static, warm up before the loop, and cache the binaries.",
        "model = torch.compile(model)",
        frames=r"torch/(_dynamo|_inductor|jit|_export|fx)/|triton/|numba/core/|mindspore/\S*compil|(^|/)(jax|tvm)/\S*compil",
        calls=r"torch\.(compile|jit\.\w+)|numba\.\w*jit|(\w+\.)*op_compile\w*|(\w+\.)*aclop\w*|compile",
        causes=("op_compile",),
        title="{place} compile{s} operators while the {device} waits",
        instead={
            "NPU": "Keep shapes static, and call `torch_npu.npu.set_compile_mode(jit_compile=False)`.",
            "mindspore": "Keep shapes static, and warm up before the loop.",
            "tensorflow": "Keep shapes static, and warm up before the loop.",
        },
    ),
    Cause(
        "copy",
        "a blocking copy",
        "Copy from pinned memory with `non_blocking=True`; batch copies to the host.",
        'x = x.to("npu")',
        calls=r"(\w+\.)+(to|npu|cuda|copy_|pin_memory|to_device)|npu\.(array|asarray)|(torch|ms|mindspore|mint)\."
        r"(tensor|as_tensor|Tensor|from_numpy)|(\w+\.)*memcpy\w*",
        causes=("copy_call",),
        title="{place} cop{ies} data while the {device} waits",
        instead={
            "mindspore": "Use data sinking (`dataset_sink_mode=True`), and batch copies to the host.",
            "tensorflow": "Feed the model from a `tf.data` pipeline, and fetch less often.",
        },
    ),
    Cause(
        SHORT,
        "short statements between launches",
        "Move work out of the loop, or use graph mode.",
        "scale = 1 / (1 + step)",
    ),
    Cause(
        NOTEBOOK,
        "IPython, which compiles each statement of a cell before it runs",
        "Put the statements into a function, which is compiled as a whole.",
        "x = a @ b",
        title="IPython keeps the {device} waiting between statements",
    ),
    Cause(
        OTHER,
        "anything else",
        "Shorten {call}, or run it in a thread or process.",
        "batch = augment(batch)",
    ),
)
BY_NAME: Mapping[str, Cause] = {cause.name: cause for cause in CAUSES}
_BY_CAUSE = {known: cause.name for cause in CAUSES for known in cause.causes}
# By text, what is certain comes before what many calls are named like; the frames of some are within others'.
_BY_TEXT = (
    *("compile", WAIT, "gc", "subprocess", "save", "read", OUTPUT, LOADER, LOCK, SLEEP, "alloc", HOST_WORK, "copy"),
)
_FRAMES = {cause.name: re.compile(cause.frames) for cause in CAUSES if cause.frames}
_CALLS = [(name, re.compile(BY_NAME[name].calls)) for name in _BY_TEXT]
_LATE = (SLEEP, HOST_WORK)
_EARLY = ("compile", "save", *(name for name in _FRAMES if name not in (*_LATE, "compile", "save")))
_BODIES = ("body", "orelse", "finalbody", "cases", "handlers", "decorator_list")
_OF_LOADERS = frozenset({SLEEP, LOCK, OTHER, HOST_WORK, ""})  # what a loader does while it loads
_LOADER_NAMES = re.compile(
    r"(next|get|load|make|fetch|sample|read|iter|generate|produce|prepare)_?(mini)?(batch|sample|example|data|item|"
    r"image|record|chunk)\w*|\w*batches|\w*data_?loader|\w*loader|collate\w*|\w*prefetch\w*|__next__|__getitem__|stream|"
    r"data_?set|feed\w*"
)
_ON_HOST = re.compile(
    r"(np|numpy)\.(random|fft|linalg|testing|lib)(\.\w+)+|(pd|pandas|pl|scipy|random|cv2|sp|hashlib|zlib|copy|math|"
    r"statistics)(\.\w+)+|(\w+\.)*\w*(rng|generator)\w*(\.\w+)+|sorted|deepcopy|shuffle"
)
_READS_VALUES = re.compile(r"float|int|bool|str|repr|print|list|np\.(asarray|array)|numpy\.(asarray|array)")


def of_idle_cause(cause: str) -> str:
    """Return the name of the cause that a cause of idle time stands for; empty for what only stacks and text tell."""
    return _BY_CAUSE.get(cause, "")


def of_frames(frames: Sequence[str]) -> str:
    """Return the name of the cause that a Python stack tells, empty for none."""
    for names in (_EARLY, _LATE):
        for frame in frames:
            found = next((name for name in names if _FRAMES[name].search(frame)), "")
            if found:
                return found
    return ""


def of_text(statements: Sequence[ast.stmt], *, syncs: bool | None) -> str:
    """Return the name of the cause that the text of a line's statements tells, empty for none."""
    if not statements:
        return WAIT if syncs else ""
    names = [_dotted(call) for call in calls_of(statements)]
    if syncs and (not names or any(_READS_VALUES.fullmatch(name) for name in names)):
        return WAIT
    polls = [each for each in statements if isinstance(each, ast.While)]
    if any(all(isinstance(inside, (ast.Pass, ast.Continue)) for inside in each.body) for each in polls):
        return SLEEP
    for cause, pattern in _CALLS:
        if (cause != WAIT or syncs is not False) and any(pattern.fullmatch(name) for name in names):
            return cause
    entered = [item.context_expr for each in statements if isinstance(each, ast.With) for item in each.items]
    return LOCK if any(isinstance(each, (ast.Name, ast.Attribute)) for each in entered) else ""


def is_of_host(statements: Sequence[ast.stmt]) -> bool:
    """Return whether a line calls what never runs on a device, such as random numbers of NumPy."""
    return any(_ON_HOST.fullmatch(_dotted(call)) for call in calls_of(statements))


def is_loader(frames: Sequence[str], statements: Sequence[ast.stmt]) -> bool:
    """Return whether functions or statements are a loader, or the head of a loop over one."""
    heads = [each.iter for each in statements if isinstance(each, (ast.For, ast.AsyncFor))]
    if any(not (isinstance(over, ast.Call) and _dotted(over) == "range") for over in heads):
        return True
    names = [_dotted(call) for call in calls_of(statements)]
    return any(
        _FRAMES[LOADER].search(frame) or _LOADER_NAMES.fullmatch(frame.rpartition(":")[2]) for frame in frames
    ) or any(name in ("next", "anext") or _LOADER_NAMES.fullmatch(name.rpartition(".")[2]) for name in names)


def cause_of(
    inner: Sequence[str],
    outer: Sequence[str],
    line: Sequence[ast.stmt],
    caller: Sequence[ast.stmt],
    *,
    syncs: bool | None,
    in_generator: bool = False,
) -> str:
    """Return the name of the cause of time that a sample saw, or that only a line is known of.

    Parameters
    ----------
    inner
        ``file:function`` of what the innermost line of the user's code called, the innermost first; empty without a
        sample.
    line, caller
        The statements of the innermost line of the user's code, and of the cell's line that leads to it.
    """
    found = of_frames(inner)
    by_text = of_text(line, syncs=syncs)
    if syncs and (found == OUTPUT or (found == HOST_WORK and by_text == WAIT)):  # a value was read, to be printed
        return WAIT
    found = found or by_text
    if found in _OF_LOADERS and (in_generator or is_loader(outer, line) or is_loader((), caller)):
        return LOADER
    return found or OTHER


def call_of(cause: str, statements: Sequence[ast.stmt]) -> ast.Call | None:
    """Return the first call in a line that has a cause, None without one."""
    pattern = dict(_CALLS).get(cause)
    calls = calls_of(statements)
    values = [call for call in calls if cause == WAIT and _READS_VALUES.fullmatch(_dotted(call))]
    return next(
        (call for call in calls if pattern is not None and pattern.fullmatch(_dotted(call))), next(iter(values), None)
    )


def calls_of(statements: Sequence[ast.AST]) -> list[ast.Call]:
    """Return the calls in statements, without those in bodies of compound ones, in the order of the text."""
    found: list[ast.Call] = []
    waiting = list(statements)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Call):
            found.append(node)
        for name, value in ast.iter_fields(node):
            in_body = isinstance(node, ast.stmt) and name in _BODIES
            if not in_body and not isinstance(node, ast.Lambda):
                waiting += [
                    each for each in (value if isinstance(value, list) else [value]) if isinstance(each, ast.AST)
                ]
    return sorted(found, key=lambda call: (call.lineno, call.col_offset))


def _dotted(call: ast.Call) -> str:
    """Return the dotted name of a call, ``open.read`` for ``open(path).read()``."""
    name = _name(call.func)
    mode = (*call.args[1:2], *(word.value for word in call.keywords if word.arg == "mode"))
    if name in ("open", "io.open") and any(
        isinstance(each, ast.Constant) and set("wax+") & set(str(each.value)) for each in mode
    ):
        return "open for writing"
    is_of_thread = not call.args or (
        len(call.args) == 1 and isinstance(call.args[0], ast.Constant) and not isinstance(call.args[0].value, str)
    )
    if name.endswith(".join") and is_of_thread:
        return f"{name} of a thread"
    return name


def _name(node: ast.AST) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{_name(node.value)}.{node.attr}"
    if isinstance(node, ast.Call):
        return _name(node.func)
    if isinstance(node, ast.Subscript):
        return _name(node.value)
    return "_"


class Statements:
    """The statements of a file by line."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines
        self._of_line: dict[int, list[ast.stmt]] = {}
        self._generators: list[tuple[int, int]] = []
        plain = [re.sub(r"^(\s*)[%!?].*", r"\1pass", line) for line in lines]
        level: list[ast.stmt] = _parsed("\n".join(plain))
        while level:  # statements within others replace these on their lines, except where both begin
            of_level: dict[int, list[ast.stmt]] = {}
            for node in level:
                for number in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                    of_level.setdefault(number, []).append(node)
            for number, nodes in of_level.items():
                heads = [each for each in self._of_line.get(number, []) if each.lineno == number]
                self._of_line[number] = heads + nodes
            self._generators += [
                (node.lineno, node.end_lineno or node.lineno)
                for node in level
                if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and _yields(node)
            ]
            level = [inside for node in level for inside in _inside(node)]

    def in_generator(self, line: int) -> bool:
        return any(first <= line <= last for first, last in self._generators)

    def at(self, line: int) -> list[ast.stmt]:
        """Return the innermost statements at a line, none where it cannot be parsed."""
        if line not in self._of_line and 0 < line <= len(self.lines):
            text = self.lines[line - 1].strip()
            self._of_line[line] = _parsed(text) or _parsed(f"{text} pass")
        return self._of_line.get(line, [])


def _yields(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether a function has a ``yield`` of its own."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.Yield, ast.YieldFrom)):
            return True
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            waiting += list(ast.iter_child_nodes(node))
    return False


def _parsed(text: str) -> list[ast.stmt]:
    try:
        return ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def _inside(node: ast.stmt) -> list[ast.stmt]:
    """Return the statements within a compound one."""
    bodies = [getattr(node, name, []) for name in ("body", "orelse", "finalbody")]
    bodies += [handler.body for handler in getattr(node, "handlers", [])]
    bodies += [case.body for case in getattr(node, "cases", [])]
    return [each for body in bodies if isinstance(body, list) for each in body]
