"""Long polling, as dashboards do it: a request is held until the next event, and one event answers all of them.

Listens at the port in its first argument. Notices when a request that it holds is given up.
"""
import asyncio
import json
import sys

held = set()
events = 0


async def serve(reader, writer):
    global events
    try:
        while head := await reader.readuntil(b"\r\n\r\n"):
            method, target = head.split(b" ")[:2]
            length = 0
            for line in head.split(b"\r\n")[1:]:
                name, _, value = line.partition(b":")
                if name.lower() == b"content-length":
                    length = int(value)
            content = await reader.readexactly(length)
            if target == b"/held":
                answer = {"held": len(held)}
            elif method == b"POST":
                events += 1
                for waiting in list(held):
                    if not waiting.done():
                        waiting.set_result(content.decode())
                answer = {"event": events}
            else:
                waiting = asyncio.get_running_loop().create_future()
                held.add(waiting)
                # Nothing comes before the answer, unless the client leaves.
                left = asyncio.ensure_future(reader.read(1))
                done, _ = await asyncio.wait({waiting, left}, return_when=asyncio.FIRST_COMPLETED)
                held.discard(waiting)
                if waiting not in done:
                    return
                left.cancel()
                answer = {"text": waiting.result()}
            body = json.dumps(answer).encode()
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nCache-Control: no-store\r\nContent-Length: ")
            writer.write(str(len(body)).encode() + b"\r\n\r\n" + body)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", int(sys.argv[1]), backlog=512)
    await server.serve_forever()


asyncio.run(main())
