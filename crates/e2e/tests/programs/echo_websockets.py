"""Sends WebSocket messages back. The argument is the port."""

import asyncio
import sys

from websockets.asyncio.server import serve


async def echo(connection):
    async for message in connection:
        await connection.send(message)


async def main():
    settings = {"max_size": None, "ping_interval": None}
    async with serve(echo, "127.0.0.1", int(sys.argv[1]), **settings) as server:
        await server.serve_forever()


asyncio.run(main())
