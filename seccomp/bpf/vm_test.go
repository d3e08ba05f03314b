//go:build seccomp

package bpf

import (
	"encoding/binary"
	"fmt"
	"testing"
)

// insn is struct sock_filter.
type insn struct {
	code   uint16
	jt, jf uint8
	k      uint32
}

// record is struct seccomp_data: what the kernel shows a filter.
type record struct {
	nr   uint32
	arch uint32
	ip   uint64
	args [6]uint64
}

// bytes lays the record out as the kernel does on a little-endian machine.
func (r *record) bytes() (b [64]byte) {
	binary.LittleEndian.PutUint32(b[0:], r.nr)
	binary.LittleEndian.PutUint32(b[4:], r.arch)
	binary.LittleEndian.PutUint64(b[8:], r.ip)
	for i, a := range r.args {
		binary.LittleEndian.PutUint64(b[16+8*i:], a)
	}
	return b
}

func decode(t testing.TB, code []byte) []insn {
	t.Helper()
	if len(code) == 0 || len(code)%8 != 0 || len(code)/8 > 4096 {
		t.Fatalf("a filter of %d bytes", len(code))
	}
	prog := make([]insn, len(code)/8)
	for i := range prog {
		b := code[8*i:]
		prog[i] = insn{binary.LittleEndian.Uint16(b), b[2], b[3], binary.LittleEndian.Uint32(b[4:])}
	}
	return prog
}

// interpret runs a classic BPF program as the kernel's seccomp does: loads are
// aligned 32-bit words of the record in the machine's own byte order, and only
// the instructions of seccomp_check_filter() (kernel/seccomp.c) exist. It gives
// the filter's return value and the number of instructions run.
func interpret(prog []insn, r *record) (ret uint32, steps int, err error) {
	data := r.bytes()
	var a, x uint32
	var mem [16]uint32
	for pc := 0; pc < len(prog); {
		i := prog[pc]
		pc++
		steps++
		operand := i.k
		if i.code&0x08 != 0 { // BPF_X
			operand = x
		}
		switch i.code {
		case 0x20: // ld [k]
			if i.k%4 != 0 || i.k >= 64 {
				return 0, steps, fmt.Errorf("insn %d: load at %d", pc-1, i.k)
			}
			a = binary.LittleEndian.Uint32(data[i.k:])
		case 0x80, 0x81: // ld len, ldx len
			if i.code == 0x80 {
				a = 64
			} else {
				x = 64
			}
		case 0x00: // ld #k
			a = i.k
		case 0x01: // ldx #k
			x = i.k
		case 0x60, 0x61, 0x02, 0x03: // ld M[k], ldx M[k], st, stx
			if i.k > 15 {
				return 0, steps, fmt.Errorf("insn %d: memory word %d", pc-1, i.k)
			}
			switch i.code {
			case 0x60:
				a = mem[i.k]
			case 0x61:
				x = mem[i.k]
			case 0x02:
				mem[i.k] = a
			case 0x03:
				mem[i.k] = x
			}
		case 0x07: // tax
			x = a
		case 0x87: // txa
			a = x
		case 0x04, 0x0c:
			a += operand
		case 0x14, 0x1c:
			a -= operand
		case 0x24, 0x2c:
			a *= operand
		case 0x34, 0x3c:
			if operand == 0 {
				return 0, steps, nil
			}
			a /= operand
		case 0x44, 0x4c:
			a |= operand
		case 0x54, 0x5c:
			a &= operand
		case 0xa4, 0xac:
			a ^= operand
		case 0x64, 0x6c:
			a <<= operand & 31
		case 0x74, 0x7c:
			a >>= operand & 31
		case 0x84:
			a = -a
		case 0x05: // ja
			pc += int(i.k)
		case 0x15, 0x1d, 0x25, 0x2d, 0x35, 0x3d, 0x45, 0x4d:
			var yes bool
			switch i.code & 0xf0 {
			case 0x10:
				yes = a == operand
			case 0x20:
				yes = a > operand
			case 0x30:
				yes = a >= operand
			case 0x40:
				yes = a&operand != 0
			}
			if yes {
				pc += int(i.jt)
			} else {
				pc += int(i.jf)
			}
		case 0x06: // ret #k
			return i.k, steps, nil
		case 0x16: // ret a
			return a, steps, nil
		default:
			return 0, steps, fmt.Errorf("insn %d: code %#x is not for seccomp", pc-1, i.code)
		}
	}
	return 0, steps, fmt.Errorf("ran off the end")
}

// TestInterpreter holds the interpreter to small programs worked out by hand.
func TestInterpreter(t *testing.T) {
	r := &record{nr: 7, arch: 0xc000003e, args: [6]uint64{0x1_0000_5412}}
	for _, c := range []struct {
		name string
		prog []insn
		want uint32
		ok   bool
	}{
		{"return", []insn{{0x06, 0, 0, 42}}, 42, true},
		{"number", []insn{{0x20, 0, 0, 0}, {0x16, 0, 0, 0}}, 7, true},
		{"arch", []insn{{0x20, 0, 0, 4}, {0x16, 0, 0, 0}}, 0xc000003e, true},
		{"low word", []insn{{0x20, 0, 0, 16}, {0x16, 0, 0, 0}}, 0x5412, true},
		{"high word", []insn{{0x20, 0, 0, 20}, {0x16, 0, 0, 0}}, 1, true},
		{"equal taken", []insn{{0x20, 0, 0, 0}, {0x15, 1, 0, 7}, {0x06, 0, 0, 1}, {0x06, 0, 0, 2}}, 2, true},
		{"greater or equal not taken", []insn{{0x20, 0, 0, 0}, {0x35, 1, 0, 8}, {0x06, 0, 0, 1}, {0x06, 0, 0, 2}}, 1, true},
		{"mask", []insn{{0x20, 0, 0, 16}, {0x54, 0, 0, 0xff}, {0x16, 0, 0, 0}}, 0x12, true},
		{"long jump", []insn{{0x05, 0, 0, 1}, {0x06, 0, 0, 1}, {0x06, 0, 0, 2}}, 2, true},
		{"byte load", []insn{{0x30, 0, 0, 0}, {0x16, 0, 0, 0}}, 0, false},
		{"unaligned", []insn{{0x20, 0, 0, 2}, {0x16, 0, 0, 0}}, 0, false},
		{"outside", []insn{{0x20, 0, 0, 64}, {0x16, 0, 0, 0}}, 0, false},
		{"no return", []insn{{0x20, 0, 0, 0}}, 0, false},
	} {
		got, _, err := interpret(c.prog, r)
		if got != c.want || (err == nil) != c.ok {
			t.Errorf("%s: %#x, %v", c.name, got, err)
		}
	}
}
