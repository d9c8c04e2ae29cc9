"""The public names of npuprof, each with its home; npuprof imports them when they are first used."""

from . import callbacks as callbacks
from . import dynamic as dynamic
from . import simulator as simulator
from . import tensorflow as tensorflow
from .analysis.chip_limits import chip as chip
from .collectors.capabilities import supported_activities as supported_activities
from .collectors.capabilities import supported_ai_core_metrics as supported_ai_core_metrics
from .collectors.capabilities import supported_export_type as supported_export_type
from .collectors.capabilities import supported_profiler_level as supported_profiler_level
from .errors import NpuprofError as NpuprofError
from .errors import NpuprofWarning as NpuprofWarning
from .loading import compare as compare
from .loading import load as load
from .loading import load_set as load_set
from .markers import mark as mark
from .markers import pop as pop
from .markers import push as push
from .markers import range as range  # noqa: A004 - reads as npuprof.range("forward")
from .markers import range_end as range_end
from .markers import range_start as range_start
from .notebook import load_ipython_extension as load_ipython_extension
from .notebook import unload_ipython_extension as unload_ipython_extension
from .notebook.views import panel as panel
from .options import Options as Options
from .profiles.comparison import Comparison as Comparison
from .profiles.profile import Profile as Profile
from .ranks.profile_set import ProfileSet as ProfileSet
from .session.engines import engines as engines
from .session.mixins import last as last
from .session.offline import offline_analyse as offline_analyse
from .session.offline import trace_handler as trace_handler
from .session.reruns import history as history
from .session.schedule import ProfilerAction as ProfilerAction
from .session.schedule import schedule as schedule
from .session.session import Session as Session
from .session.session import profile as profile
from .session.session import step as step
from .tables.schema import explain as explain

__all__: list[str]
__version__: str
