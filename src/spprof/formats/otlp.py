"""OpenTelemetry profiles: the bytes of one ExportProfilesServiceRequest
(https://github.com/open-telemetry/opentelemetry-proto/blob/main/opentelemetry/proto/profiles/v1development/profiles.proto),
as a collector takes them with a POST to /v1development/profiles. The extra `otlp` brings the messages' definitions.

A sample of the request is a distinct stack of a thread with its labels, linked to the span of OpenTelemetry that was current; it
has the time and the weight of each of ours. Wall time is two profiles, of time on the CPU and off it, by the names that the
standard has for these.
"""

from __future__ import annotations

import hashlib
import json
import os
from array import array
from typing import TYPE_CHECKING, Any, BinaryIO, Callable, Dict, Hashable, List, Optional, Set, Tuple

from opentelemetry.proto.collector.profiles.v1development import profiles_service_pb2
from opentelemetry.proto.profiles.v1development import profiles_pb2

from ..errors import BadOption
from ..model.records import OFF_CPU
from ..model.spans import SPAN, TRACE
from ..model.spans import ids as ids_of_spans
from ..model.unicode import clean
from ..readers.spprof import build_ids
from ._frames import Frames, Look
from ._samples import marks, period_of, tracks, written_tids

if TYPE_CHECKING:
    from ..model.data import ProfileData
    from .options import Options


# The fields of a sample in the draft that collectors v0.150 take. They were renumbered before (opentelemetry-proto 1.43) with no
# other sign, and may be again; a collector would then take one for another.
_SAMPLE = {"stack_index": 1, "attribute_indices": 2, "link_index": 3, "values": 4, "timestamps_unix_nano": 5}


def write(profile: ProfileData, out: BinaryIO, options: Options) -> None:
    """Writes the request, a profile of it for each type of samples, with weights, or ticks if `weight='samples'`.
    Raises BadOption if the extra is of another draft."""
    out.write(_Request(profile, options).message.SerializeToString())


class _Table:
    """A table of the dictionary. Its first entry is empty, as the specification wants; each content is in it once."""

    def __init__(self, entries: Any) -> None:
        self.entries = entries
        self.ids: Dict[Hashable, int] = {}
        entries.add()

    def find(self, *content: Hashable) -> Tuple[int, Any]:
        """The index of the entry of this content, and if it is new the entry, to be filled (else None)."""
        id = self.ids.get(content)
        if id is not None:
            return id, None
        id = self.ids[content] = len(self.entries)
        return id, self.entries.add()


class _Request:
    def __init__(self, profile: ProfileData, options: Options) -> None:
        self.profile, self.options = profile, options
        self.tids = written_tids(profile)
        if {field.name: field.number for field in profiles_pb2.Sample.DESCRIPTOR.fields} != _SAMPLE:
            raise BadOption(
                "the installed opentelemetry-proto has another draft of profiles than collectors v0.150:"
                " pip install 'spprof[otlp]' on Python 3.10 or newer"
            )
        self.message = profiles_service_pb2.ExportProfilesServiceRequest()
        dictionary = self.message.dictionary
        self.strings: Dict[str, int] = {"": 0}
        self.mappings, self.functions = _Table(dictionary.mapping_table), _Table(dictionary.function_table)
        self.stacks, self.attributes = _Table(dictionary.stack_table), _Table(dictionary.attribute_table)
        self.links = _Table(dictionary.link_table)
        dictionary.location_table.add()
        self.build_ids = build_ids(*profile.raws())
        stacks = self._stacks()
        for header, threads in self._processes():
            resource = self.message.resource_profiles.add()
            self._resource(resource.resource.attributes, header)
            self._scope(resource.scope_profiles.add(), stacks, header, threads)
        dictionary.string_table.extend(map(clean, self.strings))

    def string(self, value: str) -> int:
        return self.strings.setdefault(value, len(self.strings))

    def attribute(self, key: str, value: Any) -> int:
        id, fresh = self.attributes.find(key, value)
        if fresh:
            fresh.key_strindex = self.string(key)
            _set(fresh.value, value)
        return id

    def _processes(self) -> List[Tuple[Dict[str, Any], Optional[Set[int]]]]:
        """The header of each process and its threads; None: all."""
        profile, joins = self.profile, self.profile.origin.joins
        if not joins:
            return [(profile.header, None)]
        known = profile._columns()["threads"]
        return [
            (each.header, {id for id, about in known.items() if about["process"] == number}) for number, each in enumerate(joins)
        ]

    def _resource(self, attributes: Any, header: Dict[str, Any]) -> None:
        """A profiled process, by the semantic conventions (https://opentelemetry.io/docs/specs/semconv/resource/process/)."""
        argv = [str(argument) for argument in header.get("argv") or []]
        script = os.path.basename(argv[0]) if argv else "unknown_service:python"
        about = {
            "service.name": os.environ.get("OTEL_SERVICE_NAME") or script,  # the variable of OpenTelemetry's own libraries
            "process.pid": header.get("pid"),
            "process.command_args": argv,
            "process.runtime.name": header.get("implementation"),
            "process.runtime.version": header.get("python"),
        }
        for key, value in about.items():
            if value:
                _set(attributes.add(key=key).value, value)

    def _scope(self, scope: Any, stacks: Callable[[int], int], process: Dict[str, Any], threads: Optional[Set[int]]) -> None:
        from .. import __version__

        scope.scope.name, scope.scope.version = "spprof", __version__
        first, *others = self.profile.each_type()
        for profile in (first, *filter(len, others)):
            for kind, off_cpu in _kinds(profile):
                message = self._profile(scope.profiles, profile, process, kind)
                self._samples(message.samples, profile, stacks, threads, off_cpu)

    def _profile(self, profiles: Any, profile: ProfileData, process: Dict[str, Any], kind: str) -> Any:
        """What is said of the samples of one kind."""
        header, end = profile.header, profile.end or {}
        start = int(header.get("start_unix_ns") or 0)
        message = profiles.add(time_unix_nano=start, period=period_of(profile))
        message.profile_id = hashlib.blake2b(
            json.dumps([header, process, kind], sort_keys=True).encode(), digest_size=16
        ).digest()
        message.duration_nano = max(0, int(end.get("stop_ns") or 0) - int(header.get("start_ns") or 0))
        message.period_type.type_strindex = self.string(kind)
        message.period_type.unit_strindex = self.string(profile.unit)
        counted = self.options.weight == "samples"
        message.sample_type.type_strindex = self.string("samples" if counted else kind)
        message.sample_type.unit_strindex = self.string("count" if counted else profile.unit)
        return message

    def _samples(
        self,
        samples: Any,
        profile: ProfileData,
        stacks: Callable[[int], int],
        threads: Optional[Set[int]],
        off_cpu: Optional[bool],
    ) -> None:
        """`off_cpu`: only samples that are, or are not; None: all."""
        header = profile.header
        start = header.get("start_unix_ns")
        values = profile.column("count" if self.options.weight == "samples" else "weight")
        labels, sets = marks(profile, spans=False)
        spans = ids_of_spans(profile._columns())
        for part in tracks(profile, self.options):
            more = map(profile.column, ("thread", "flags", "span"))
            columns = (profile.stack_keys(), labels, profile.column("time_ns"), values, *more)
            observed: Dict[Tuple[int, int, int], Tuple[array[int], array[int]]] = {}
            if threads is not None and part.thread is not None and part.thread not in threads:
                continue
            for key, label, time, value, thread, flags, span in zip(*map(part.pick, columns)):
                if threads is not None and thread not in threads:
                    continue
                if off_cpu is not None and bool(flags & OFF_CPU) != off_cpu:
                    continue
                both = observed.get((key, label, span))
                if both is None:
                    both = observed[key, label, span] = array("q"), array("q")
                both[0].append(time)
                both[1].append(value)
            for (key, label, span), (times, amounts) in observed.items():
                sample = samples.add(stack_index=stacks(key), attribute_indices=self._attributes(part.thread, sets[label]))
                sample.link_index = self._link(spans[span])
                if start:
                    since = int(start) - int(header.get("start_ns") or 0)
                    sample.timestamps_unix_nano.extend([time + since for time in times])
                    sample.values.extend(amounts)
                else:  # of other profilers' files: no time is known
                    sample.values.append(sum(amounts))

    def _attributes(self, thread: Optional[int], labels: Dict[str, str]) -> List[int]:
        pairs: Dict[str, Any] = dict(labels)
        if thread is not None:
            pairs["thread.name"] = self.profile.thread_name(thread)
            tid = self.tids[thread]
            if tid:
                pairs["thread.id"] = tid
        return [self.attribute(*pair) for pair in pairs.items()]

    def _link(self, ids: Dict[str, str]) -> int:
        """The link to a span; 0: there is none."""
        if not ids:
            return 0
        id, fresh = self.links.find(ids[TRACE], ids[SPAN])
        if fresh:
            fresh.trace_id, fresh.span_id = bytes.fromhex(ids[TRACE]), bytes.fromhex(ids[SPAN])
        return id

    def _stacks(self) -> Callable[[int], int]:
        """The function from a stack's key to its index; it adds locations as it meets new frames."""
        frames = Frames(self.profile, self.options.lines, addresses=True)
        table = self.message.dictionary.location_table  # of look number n the location n + 1

        def index(key: int) -> int:
            stack = frames.stack(key)
            for look in frames.looks[len(table) - 1 :]:
                self._location(table.add(), look)
            id, fresh = self.stacks.find(key)
            if fresh:
                fresh.location_indices.extend([number + 1 for number in reversed(stack)])
            return id

        return index

    def _location(self, location: Any, look: Look) -> None:
        if look.library:
            location.mapping_index, fresh = self.mappings.find(look.library)
            if fresh:
                fresh.filename_strindex = self.string(look.library)
                known = self.build_ids.get(look.library, set()) - {""}
                if len(known) == 1:  # else it was another file at another time of the run
                    fresh.attribute_indices.append(self.attribute("process.executable.build_id.gnu", next(iter(known))))
        location.address = look.address
        if look.native or (look.file and self.profile.header.get("implementation")):
            location.attribute_indices.append(self.attribute("profile.frame.type", "native" if look.native else "cpython"))
        names = look.name, look.system_name, look.file
        function, fresh = self.functions.find(*names, look.first_line)
        if fresh:
            fresh.name_strindex, fresh.system_name_strindex, fresh.filename_strindex = map(self.string, names)
            fresh.start_line = look.first_line
        location.lines.add(function_index=function, line=look.line, column=look.column)


def _kinds(profile: ProfileData) -> List[Tuple[str, Optional[bool]]]:
    """What its samples are of, by the names of the standard, and which of them: those off the CPU, those on it, or None, all."""
    kind = str(profile.header.get("event") or profile.mode or profile.unit)
    if kind != "wall" or profile.unit != "nanoseconds":
        return [(kind, None)]
    found = {bool(flags & OFF_CPU) for flags in profile.column("flags")}
    return [("off_cpu" if off_cpu else "cpu", off_cpu) for off_cpu in sorted(found)] or [("cpu", False)]


def _set(target: Any, value: Any) -> None:
    """Fills an AnyValue."""
    if isinstance(value, int):
        target.int_value = value
    elif isinstance(value, list):
        for one in value:
            target.array_value.values.add(string_value=clean(one))
    else:
        target.string_value = clean(value)
