// Command frames speaks on Go's multiplexer without ttrpc on top.
//
//	frames echo SIZE…       for each size: reads so many bytes of a pattern on channel 1, says on channel 2 in which frames they
//	                        came, and writes as many on channel 1, with one Write
//	frames flood N SIZE     writes N frames of SIZE bytes on channel 2, and reads nothing but the end
package main

import (
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
			fmt.Fprintln(two, receive(one, size))
			write(one, pattern(size))
		}
	case "flood":
		for range numbers[0] {
			write(two, pattern(numbers[1]))
		}
	default:
		log.Fatalf("unknown command %q", flag.Arg(0))
	}
	// The trunk ends with the process: wait until the other end has read everything and closed it.
	if _, err := one.Read(make([]byte, largest)); err != io.EOF {
		log.Fatalf("waiting for the end: %v", err)
	}
}

// receive reads size bytes and returns the sizes of the frames they came in.
func receive(conn net.Conn, size int) []int {
	var (
		sizes []int
		seen  int
		frame = make([]byte, largest)
	)
	for seen < size {
		n, err := conn.Read(frame)
		if err != nil {
			log.Fatalf("after %d of %d bytes: %v", seen, size, err)
		}
		for i, b := range frame[:n] {
			if b != byte((seen+i)%251) {
				log.Fatalf("byte %d of %d is %d", seen+i, size, b)
			}
		}
		seen += n
		sizes = append(sizes, n)
	}
	return sizes
}

func write(conn net.Conn, value []byte) {
	if n, err := conn.Write(value); err != nil || n != len(value) {
		log.Fatalf("wrote %d of %d bytes: %v", n, len(value), err)
	}
}

// pattern is n bytes that a shift or a swap changes.
func pattern(n int) []byte {
	value := make([]byte, n)
	for i := range value {
		value[i] = byte(i % 251)
	}
	return value
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
