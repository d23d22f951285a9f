// Moves the data of time zones out of a module: few questions need it, and it is a fifth of all.

const [CUSTOM, DATA_COUNT, DATA] = [0, 12, 11];

/**
 * @param {Buffer} module @param {Buffer} zoneData what is moved, as the module has it
 * @returns {{core: Buffer, zones: Buffer}} `zones` begins with the address of the data, in four bytes, the lowest first
 */
export function splitZones(module, zoneData) {
  /** @type {Buffer[]} */
  const parts = [module.subarray(0, 8)];
  let zones = null;
  for (let place = 8; place < module.length;) {
    const id = module[place];
    const [length, begin] = number(module, place + 1);
    const content = module.subarray(begin, begin + length);
    place = begin + length;
    if (id === CUSTOM) continue;
    if (id === DATA) {
      const { section, address } = splitData(content, zoneData);
      zones = Buffer.alloc(4 + zoneData.length);
      zones.writeUInt32LE(address);
      zoneData.copy(zones, 4);
      parts.push(sectionOf(DATA, section));
    } else if (id === DATA_COUNT) {
      parts.push(sectionOf(DATA_COUNT, leb(number(content, 0)[0] + 1)));
    } else {
      parts.push(sectionOf(id, content));
    }
  }
  if (!zones) throw new Error('the module has no data');
  return { core: Buffer.concat(parts), zones };
}

/** @param {Buffer} section @param {Buffer} zoneData */
function splitData(section, zoneData) {
  let [count, place] = number(section, 0);
  const segments = [];
  let address = null;
  for (let i = 0; i < count; i += 1) {
    // An active segment of the only memory: 0, `i32.const`, its address, `end`, its bytes.
    if (section[place] !== 0 || section[place + 1] !== 0x41) throw new Error('a segment of another kind');
    const [at, end] = number(section, place + 2, true);
    const [length, begin] = number(section, end + 1);
    const bytes = section.subarray(begin, begin + length);
    place = begin + length;
    const found = bytes.indexOf(zoneData);
    if (found < 0) {
      segments.push(segment(at, bytes));
      continue;
    }
    address = at + found;
    segments.push(segment(at, bytes.subarray(0, found)));
    segments.push(segment(address + zoneData.length, bytes.subarray(found + zoneData.length)));
  }
  if (address === null || segments.length !== count + 1) throw new Error('the module has not the data of time zones');
  return { section: Buffer.concat([leb(segments.length), ...segments]), address };
}

/** @param {number} address @param {Buffer} bytes */
const segment = (address, bytes) => Buffer.concat([Buffer.from([0, 0x41]), leb(address, true), Buffer.from([0x0b]), leb(bytes.length), bytes]);

/** @param {number} id @param {Buffer} content */
const sectionOf = (id, content) => Buffer.concat([Buffer.from([id]), leb(content.length), content]);

/** Reads a LEB128. @param {Buffer} bytes @param {number} place @param {boolean} [isSigned] @returns {[number, number]} it, and the place after it */
function number(bytes, place, isSigned = false) {
  let [value, shift] = [0n, 0n];
  for (;;) {
    const byte = BigInt(bytes[place]);
    place += 1;
    value |= (byte & 0x7fn) << shift;
    shift += 7n;
    if (byte < 0x80n) return [Number(isSigned && byte & 0x40n ? value - (1n << shift) : value), place];
  }
}

/** Writes a LEB128 of a number from 0 on. @param {number} value @param {boolean} [isSigned] */
function leb(value, isSigned = false) {
  const bytes = [];
  for (let rest = value; ;) {
    const byte = rest % 128;
    rest = Math.floor(rest / 128);
    const isLast = rest === 0 && (!isSigned || byte < 0x40);
    bytes.push(isLast ? byte : byte | 0x80);
    if (isLast) return Buffer.from(bytes);
  }
}
