// The same as http_app.py, for the requests that tests send to both.
const fs = require('fs');
const http = require('http');

function answer(request, response, body) {
  const [path, query] = request.url.split('?');
  const sized = (content, status = 200) => {
    response.writeHead(status, { 'Content-Length': Buffer.byteLength(content) });
    response.end(content);
  };
  const name = path.slice(path.lastIndexOf('/'));
  if (name === '/asked') {
    const fields = [];
    for (let at = 0; at < request.rawHeaders.length; at += 2) {
      fields.push([request.rawHeaders[at], request.rawHeaders[at + 1]]);
    }
    const line = `${request.method} ${request.url} HTTP/${request.httpVersion}`;
    sized(JSON.stringify({ line, fields, body: body.toString(), pid: process.pid }));
  } else if (name === '/echo') {
    sized(body);
  } else if (name === '/chunked') {
    response.writeHead(200, { Trailer: 'X-Sum' });
    ['one ', 'two ', 'three'].forEach((piece) => response.write(piece));
    response.addTrailers({ 'X-Sum': '3' });
    response.end();
  } else if (name === '/pieces') {
    response.write('first');
    const timer = setInterval(() => {
      if (fs.existsSync('go')) {
        clearInterval(timer);
        response.end('second');
      }
    }, 10);
  } else if (name === '/until-close') {
    response.useChunkedEncodingByDefault = false;
    response.writeHead(200, { Connection: 'close' });
    response.end('until the end');
  } else if (name === '/hints') {
    response.writeEarlyHints({ link: '</a.css>; rel=preload; as=style' });
    sized('after the hints');
  } else if (name === '/big') {
    let at = 0;
    const more = () => {
      while (at < Number(query)) {
        if (!response.write(Buffer.alloc(1 << 20, 65 + (at++ % 26)))) {
          return response.once('drain', more);
        }
      }
      response.end();
    };
    more();
  } else if (name === '/nothing') {
    response.writeHead(204);
    response.end();
  } else {
    sized('no such page', 404);
  }
}

http.createServer((request, response) => {
  const pieces = [];
  request.on('data', (piece) => pieces.push(piece));
  request.on('end', () => answer(request, response, Buffer.concat(pieces)));
}).listen(process.argv[2] ? { path: process.argv[2] } : { fd: process.env.LISTEN_FDS ? 3 : 0 });
