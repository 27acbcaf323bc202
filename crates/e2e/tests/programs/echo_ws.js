// Sends WebSocket messages back. The argument is the port.
const { WebSocketServer } = require('ws');

new WebSocketServer({ host: '127.0.0.1', port: Number(process.argv[2]) }).on('connection', (socket) => {
  socket.on('error', () => {});
  socket.on('message', (data, binary) => socket.send(data, { binary }));
});
