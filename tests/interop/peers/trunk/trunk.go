// Package trunk is the connection that a test hands to a peer as its standard input.
//
// A peer may be told to break at an exact byte: "-fault write:17:die" lets it send 17 bytes and kills it before the next.
package trunk

import (
	"encoding/hex"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
)

var (
	faultFlag   = flag.String("fault", "", "`direction:bytes:act`: what goes wrong, once so many bytes were read or written")
	garbageFlag = flag.String("garbage", "", "`hex` of what the act \"garbage\" sends")
)

// Open parses the flags and returns the connection, with the fault that they ask for.
func Open() net.Conn {
	flag.Parse()

	socket := os.NewFile(0, "trunk")
	conn, err := net.FileConn(socket)
	if err != nil {
		log.Fatalf("standard input is not a socket: %v", err)
	}
	// FileConn made a copy. While the original is open, closing the copy closes nothing.
	socket.Close()

	if *faultFlag == "" {
		return conn
	}
	f, err := parse(*faultFlag)
	if err != nil {
		log.Fatalf("-fault %s: %v", *faultFlag, err)
	}
	f.Conn = conn
	return f
}

// faulty is a connection that behaves until `left` bytes have passed in one direction.
type faulty struct {
	net.Conn
	direction string
	left      int
	struck    bool
	act       func(net.Conn)
}

func parse(text string) (*faulty, error) {
	parts := strings.Split(text, ":")
	if len(parts) != 3 || (parts[0] != "read" && parts[0] != "write") {
		return nil, fmt.Errorf("want read:BYTES:ACT or write:BYTES:ACT")
	}
	left, err := strconv.Atoi(parts[1])
	if err != nil {
		return nil, err
	}
	act, ok := acts[parts[2]]
	if !ok {
		return nil, fmt.Errorf("unknown act %q", parts[2])
	}
	return &faulty{direction: parts[0], left: left, act: act}, nil
}

// Those that leave the peer alive say when it is done, for a test to wait for.
var acts = map[string]func(net.Conn){
	"die":   func(net.Conn) { syscall.Kill(os.Getpid(), syscall.SIGKILL); select {} },
	"close": func(conn net.Conn) { conn.Close() },
	"stall": func(net.Conn) { log.Print("stalled"); select {} },
	"garbage": func(conn net.Conn) {
		garbage, err := hex.DecodeString(*garbageFlag)
		if err != nil {
			log.Fatalf("-garbage: %v", err)
		}
		conn.Write(garbage)
		log.Print("sent garbage")
	},
}

func (f *faulty) Read(p []byte) (int, error) {
	if f.direction != "read" || f.struck {
		return f.Conn.Read(p)
	}
	if f.left == 0 {
		f.struck = true
		f.act(f.Conn)
		return f.Conn.Read(p)
	}
	n, err := f.Conn.Read(p[:min(len(p), f.left)])
	f.left -= n
	return n, err
}

func (f *faulty) Write(p []byte) (int, error) {
	if f.direction != "write" || f.struck {
		return f.Conn.Write(p)
	}
	if len(p) <= f.left {
		n, err := f.Conn.Write(p)
		f.left -= n
		return n, err
	}
	before, err := f.Conn.Write(p[:f.left])
	if err != nil {
		return before, err
	}
	f.struck = true
	f.act(f.Conn)
	after, err := f.Conn.Write(p[before:])
	return before + after, err
}
