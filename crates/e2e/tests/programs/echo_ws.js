// Sends WebSocket messages back. The argument is the port.
const { WebSocketServer } = require('ws');

const options = { host: '127.0.0.1', port: Number(process.argv[2]), perMessageDeflate: true };
new WebSocketServer(options).on('connection', (socket) => {
  socket.on('error', () => {});
  socket.on('message', (data, binary) => socket.send(data, { binary }));
});
