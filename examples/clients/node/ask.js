// Asks a host of livestate: node ask.js localhost:8815 "SELECT 1 AS one"
// There is no kept client of Flight SQL for Node. A ticket may be the SQL itself, so gRPC and Arrow are enough.
const grpc = require("@grpc/grpc-js");
const { tableFromIPC } = require("apache-arrow");
const { loadSync } = require("@grpc/proto-loader");

const definition = loadSync(`${__dirname}/flight.proto`, { defaults: true });
const protocol = grpc.loadPackageDefinition(definition).arrow.flight.protocol;
const [address, sql] = process.argv.slice(2);
const client = new protocol.FlightService(address, grpc.credentials.createInsecure(), {
  "grpc.max_receive_message_length": -1,
});
const metadata = new grpc.Metadata();
if (process.env.LIVESTATE_TOKEN) metadata.set("authorization", `Bearer ${process.env.LIVESTATE_TOKEN}`);

// Flight sends the messages of an Arrow stream without the 8 bytes before each.
const parts = [];
const stream = client.DoGet({ ticket: Buffer.from(sql) }, metadata);
stream.on("data", ({ dataHeader, dataBody }) => {
  const padding = Buffer.alloc(-dataHeader.length & 7);
  const prefix = Buffer.alloc(8, 0xff);
  prefix.writeInt32LE(dataHeader.length + padding.length, 4);
  parts.push(prefix, dataHeader, padding, dataBody);
});
stream.on("error", (error) => {
  console.error(error.details);
  process.exitCode = 1;
});
stream.on("end", () => {
  for (const row of tableFromIPC(Buffer.concat(parts))) console.log([...row].map(([, value]) => `${value}`).join("\t"));
});
