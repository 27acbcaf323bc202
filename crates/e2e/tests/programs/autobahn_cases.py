"""Runs the cases of Autobahn's test suite against a WebSocket server that sends messages back. The arguments are the
archive of the suite and the server's URL. Prints a line for each case: its name, the suite's verdict, its verdict about
the close, and the code of the server's close.

The suite is for Python 2. Its cases run here with the few changes that Python 3 needs. Its client, the package
`autobahn`, is there for Python 3, too; only what the cases call beyond it is written here.
"""

import asyncio
import re
import sys
import tarfile
import tempfile
from pathlib import Path
from types import SimpleNamespace

from autobahn.asyncio.websocket import WebSocketClientFactory, WebSocketClientProtocol
from autobahn.websocket.protocol import WebSocketProtocol

# Cases that run at the same time: many wait for a second.
CONCURRENCY = 16

# Categories with large messages. Their cases run alone: while this program masks and compresses, it would miss the
# deadlines of others.
LARGE = {"9", "12", "13"}

# Messages in each case of them that measures speed; the suite sends a thousand.
MESSAGES = 10

# What Python 3 or the later client reads otherwise, and what means the same there.
CHANGES = [
    (r"^( *)print\b.*", r"\1pass"),
    (r"\bxrange\b", "range"),
    (r"\(object, Case, \)", "(Case, )"),
    (r" / self\.p\.autoFragmentSize", " // self.p.autoFragmentSize"),
    (r"validate\(vss\[:i\]\)", 'validate(vss[:i].encode("latin-1"))'),
    # These cases decode the message.
    (r"^(def onMessage\(self, msg, binary\):\n)(   m = )", r'\1   msg = msg.encode("latin-1")\n\2'),
    # Only for descriptions.
    (r"\bbinascii\.b2a_hex\(", "repr("),
    # Equal values may differ there.
    (r"\bpickle\.dumps\((\w+)\)", r"\1"),
    (r"\brequestNoContextTakeover\b", "request_no_context_takeover"),
    (r"\brequestMaxWindowBits\b", "request_max_window_bits"),
    # It needs another library, and the suite does not run it.
    (r"^from case9_9_1 import \*", ""),
]


def cases_of(archive, folder):
    """The classes of all cases. The folder must stay as long as they run."""
    with tarfile.open(archive) as files:
        files.extractall(folder)
    (package,) = folder.glob("*/autobahntestsuite")
    for file in package.glob("case/*.py"):
        # A string of Python 2 has bytes. Here each byte is a character, and `octets` makes it a byte again.
        text = file.read_text(encoding="latin-1")
        for pattern, replacement in CHANGES:
            text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
        name = "all_cases.py" if file.name == "__init__.py" else file.name
        (folder / name).write_text(text, encoding="utf-8")
    # The only function of it that cases call.
    sys.modules["pkg_resources"] = SimpleNamespace(resource_filename=lambda _, name: package / name)
    sys.path.insert(0, str(folder))
    from all_cases import Cases

    return Cases


def name_of(case_class):
    return case_class.__name__.removeprefix("Case").replace("_", ".")


def is_large(case_class):
    return name_of(case_class).split(".")[0] in LARGE


def octets(text):
    return text.encode("latin-1") if isinstance(text, str) else text


class Client(WebSocketClientProtocol):
    """The connection of one case, with what cases call."""

    def __init__(self, factory, case_class):
        super().__init__()
        self.factory = factory
        self.connectionWasOpen = False
        self.txFrameStats = {}
        self.ended = asyncio.get_running_loop().create_future()
        self.case = case_class(self)

    def onOpen(self):
        self.connectionWasOpen = True
        self.case.onOpen()

    def onMessage(self, payload, isBinary):
        self.case.onMessage(payload.decode("latin-1"), isBinary)

    def onPong(self, payload):
        self.case.onPong(payload.decode("latin-1"))

    def onClose(self, wasClean, code, reason):
        self.case.onClose(wasClean, code, reason)

    def connection_lost(self, exc):
        super().connection_lost(exc)
        self.case.onConnectionLost(self.failedByMe)
        self.ended.set_result(None)

    def continueLater(self, delay, function, tag=None):
        def unless_closed():
            if self.state != self.STATE_CLOSED:
                function()

        asyncio.get_running_loop().call_later(delay, unless_closed)

    def killAfter(self, delay):
        self.continueLater(delay, self._fail_connection)

    def closeAfter(self, delay):
        self.continueLater(delay, self.sendClose)

    def sendFrame(self, opcode, payload=b"", *rest, **options):
        super().sendFrame(opcode, octets(payload), *rest, **options)

    def sendMessage(self, payload, *rest, **options):
        super().sendMessage(octets(payload), *rest, **options)

    def sendMessageFrameData(self, payload, *rest, **options):
        return super().sendMessageFrameData(octets(payload), *rest, **options)

    def sendCloseFrame(self, code=None, reasonUtf8=None, isReply=False):
        super().sendCloseFrame(code, octets(reasonUtf8), isReply)

    def logTxFrame(self, frameHeader, *rest):
        self.txFrameStats[frameHeader.opcode] = self.txFrameStats.get(frameHeader.opcode, 0) + 1

    def logRxFrame(self, *rest):
        pass

    def enableWirelog(self, enable):
        pass


async def run(case_class, factory):
    client = Client(factory, case_class)
    await asyncio.get_running_loop().create_connection(lambda: client, factory.host, factory.port)
    await client.ended
    verdicts = client.case.behavior, client.case.behaviorClose, client.remoteCloseCode
    print(name_of(case_class), *verdicts, sep="\t", flush=True)


async def main(cases, url):
    # Between two chops of a frame. The event loop would wait for a millisecond, and a frame has up to 16384.
    WebSocketProtocol._QUEUED_WRITE_DELAY = 0
    factory = WebSocketClientFactory(url, loop=asyncio.get_running_loop())
    # As the suite's own client does. Its timers end up to a second earlier: these take at least one.
    factory.setProtocolOptions(failByDrop=False, serverConnectionDropTimeout=2, closeHandshakeTimeout=2)
    # For `logTxFrame`.
    factory.logFrames = True
    permits = asyncio.Semaphore(CONCURRENCY)

    async def run_beside_others(case_class):
        async with permits:
            await run(case_class, factory)

    await asyncio.gather(*(run_beside_others(case_class) for case_class in cases if not is_large(case_class)))
    for case_class in filter(is_large, cases):
        if hasattr(case_class, "COUNT"):
            case_class.COUNT = MESSAGES
        await run(case_class, factory)


with tempfile.TemporaryDirectory() as folder:
    asyncio.run(main(cases_of(sys.argv[1], Path(folder)), sys.argv[2]))
