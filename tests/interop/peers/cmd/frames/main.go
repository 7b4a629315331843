// Command frames speaks on Go's multiplexer without ttrpc on top.
//
//	frames echo SIZE…       for each size: reads a message whose body has it on channel 1, says on channel 2 in which frames it
//	                        came, and writes such a message on channel 1 as one frame
//	frames flood N SIZE     writes N such messages on channel 2, and reads nothing but the end
//
// A message is what a writer of frames must know of ttrpc: ten bytes, of which the first four are the length of the body.
package main

import (
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"strconv"

	"github.com/containerd/nri/pkg/net/multiplex"

	"peers/trunk"
)

// largest is the longest frame that a Go mux writes.
const largest = 4<<20 + 10

func main() {
	log.SetFlags(0)
	log.SetPrefix("frames: ")

	mux := multiplex.Multiplex(trunk.Open(), multiplex.WithBlockedRead())
	one, two := open(mux, multiplex.PluginServiceConn), open(mux, multiplex.RuntimeServiceConn)
	mux.Unblock()

	numbers := numbers(flag.Args()[1:])
	switch flag.Arg(0) {
	case "echo":
		for _, size := range numbers {
			fmt.Fprintln(two, receive(one, message(size)))
			write(one, message(size))
		}
	case "flood":
		for range numbers[0] {
			write(two, message(numbers[1]))
		}
	default:
		log.Fatalf("unknown command %q", flag.Arg(0))
	}
	// The trunk ends with the process: wait until the other end has read everything and closed it.
	if _, err := one.Read(make([]byte, largest)); err != io.EOF {
		log.Fatalf("waiting for the end: %v", err)
	}
}

// receive reads what is expected and returns the sizes of the frames it came in.
func receive(conn net.Conn, expected []byte) []int {
	var (
		sizes    []int
		received []byte
		frame    = make([]byte, largest)
	)
	for len(received) < len(expected) {
		n, err := conn.Read(frame)
		if err != nil {
			log.Fatalf("after %d of %d bytes: %v", len(received), len(expected), err)
		}
		received = append(received, frame[:n]...)
		sizes = append(sizes, n)
	}
	if !bytes.Equal(received, expected) {
		log.Fatalf("%d bytes that differ from the %d expected", len(received), len(expected))
	}
	return sizes
}

func write(conn net.Conn, value []byte) {
	if n, err := conn.Write(value); err != nil || n != len(value) {
		log.Fatalf("wrote %d of %d bytes: %v", n, len(value), err)
	}
}

// message has a body of so many bytes, which a shift or a swap changes.
func message(size int) []byte {
	message := binary.BigEndian.AppendUint32(nil, uint32(size))
	message = append(message, 0, 0, 0, 1, 1, 0)
	for i := range size {
		message = append(message, byte(i%251))
	}
	return message
}

func open(mux multiplex.Mux, id multiplex.ConnID) net.Conn {
	conn, err := mux.Open(id)
	if err != nil {
		log.Fatal(err)
	}
	return conn
}

func numbers(args []string) []int {
	var numbers []int
	for _, arg := range args {
		n, err := strconv.Atoi(arg)
		if err != nil {
			log.Fatal(err)
		}
		numbers = append(numbers, n)
	}
	return numbers
}
