"""CloudWatch logs of training jobs: one stream per host, with lines generated on demand to save memory."""

import bisect
import heapq
import json

from .wire import Refused, ok

GROUP = "/aws/sagemaker/TrainingJobs"
PAGE_EVENTS, PAGE_BYTES = 10_000, 1_048_576


class Stream:
    """The lines of one host."""

    def __init__(self, job, name, host):
        self.job, self.host = job, host
        self.start = int(job.trained * 1000)
        self.name = f"{name}/algo-{host}-{self.start // 1000}"
        self.lines = job.log_text.get(str(host))

    def __len__(self):
        return len(self.lines) if self.lines is not None else self.job.log_lines

    def event(self, index):
        count = max(len(self), 1)
        at = self.start + index * self.job.log_seconds * 1000 // count
        if self.lines is not None:
            message = self.lines[index]
        else:
            message = f"host algo-{self.host} line {index} step={index} loss={10 / (index + 1):.4f}"
        return {"timestamp": at, "message": message, "ingestionTime": at + 900}

    def since(self, moment):
        """Returns the index of the first line at or after `moment`, in milliseconds."""
        if moment is None:
            return 0
        return bisect.bisect_left(range(len(self)), moment, key=lambda i: self.event(i)["timestamp"])


class Logs:
    def __init__(self, world):
        self.world = world

    def answer(self, call):
        request = call.json
        group = request.get("logGroupName") or request.get("logGroupIdentifier")
        if group != GROUP:
            return None
        handler = getattr(self, "do_" + call.operation, None)
        return None if handler is None else ok(handler(request, call.region))

    def streams(self, region):
        found = []
        for (where, name), job in self.world.jobs.items():
            if where == region and job.trained is not None:
                found += [Stream(job, name, host) for host in range(1, job.instances() + 1)]
        return sorted(found, key=lambda stream: stream.name)

    def do_DescribeLogStreams(self, request, region):
        every = self.streams(region)
        if not every:
            raise Refused("ResourceNotFoundException", "The specified log group does not exist.")
        prefix = request.get("logStreamNamePrefix", "")
        found = [s for s in every if s.name.startswith(prefix)]
        start, most = int(request.get("nextToken") or 0), request.get("limit", 50)
        shown = [
            {
                "logStreamName": s.name,
                "creationTime": s.start,
                "arn": f"arn:aws:logs:{region}:{self.world.account}:log-group:{GROUP}:log-stream:{s.name}",
                **({"firstEventTimestamp": s.event(0)["timestamp"],
                    "lastEventTimestamp": s.event(len(s) - 1)["timestamp"]} if len(s) else {}),
            }
            for s in found[start : start + most]
        ]
        more = {"nextToken": str(start + most)} if start + most < len(found) else {}
        return {"logStreams": shown, **more}

    def do_GetLogEvents(self, request, region):
        stream = next((s for s in self.streams(region) if s.name == request["logStreamName"]), None)
        if stream is None:
            raise Refused("ResourceNotFoundException", "The specified log stream does not exist.")
        most = min(request.get("limit", PAGE_EVENTS), PAGE_EVENTS)
        token = request.get("nextToken")
        if token is not None:
            start = int(token.partition("/")[2])
        elif request.get("startFromHead"):
            start = stream.since(request.get("startTime"))
        else:
            start = max(len(stream) - most, 0)
        events, size = [], 0
        while start + len(events) < len(stream) and len(events) < most:
            event = stream.event(start + len(events))
            size += len(event["message"].encode()) + 26
            if size > PAGE_BYTES:
                break
            events.append(event)
        return {
            "events": events,
            "nextForwardToken": f"f/{start + len(events)}",
            "nextBackwardToken": f"b/{start}",
        }

    def do_FilterLogEvents(self, request, region):
        prefix, names = request.get("logStreamNamePrefix", ""), request.get("logStreamNames")
        found = [s for s in self.streams(region) if s.name.startswith(prefix) and (not names or s.name in names)]
        if not found and not self.streams(region):
            raise Refused("ResourceNotFoundException", "The specified log group does not exist.")
        begun, ended = request.get("startTime"), request.get("endTime")
        token = request.get("nextToken")
        at = json.loads(token) if token else {s.name: s.since(begun) for s in found}
        most = min(request.get("limit", PAGE_EVENTS), PAGE_EVENTS)
        events, size = [], 0
        heap = [(s.event(at[s.name])["timestamp"], s.name, s) for s in found if at.get(s.name, 0) < len(s)]
        heapq.heapify(heap)
        while heap and len(events) < most and size < PAGE_BYTES:
            moment, name, stream = heapq.heappop(heap)
            if ended is not None and moment > ended:
                break
            index = at[name]
            event = stream.event(index)
            events.append({**event, "logStreamName": name, "eventId": f"{moment:020}{stream.host:06}{index:010}"})
            size += len(event["message"]) + 26
            at[name] = index + 1
            if index + 1 < len(stream):
                heapq.heappush(heap, (stream.event(index + 1)["timestamp"], name, stream))
        more = heap and (ended is None or heap[0][0] <= ended)
        return {"events": events, "searchedLogStreams": [], **({"nextToken": json.dumps(at)} if more else {})}
