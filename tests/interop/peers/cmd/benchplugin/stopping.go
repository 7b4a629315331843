package main

import (
	"fmt"
	"net"
	"syscall"
)

// stopsAfter dials connections that stop the whole process, as a debugger would, once so
// many bytes were read: in the midst of a message if that is larger.
func stopsAfter(limit int64) func(string) (net.Conn, error) {
	return func(socket string) (net.Conn, error) {
		conn, err := net.Dial("unix", socket)
		return &stopping{Conn: conn, left: limit}, err
	}
}

type stopping struct {
	net.Conn
	left int64
}

func (s *stopping) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	s.left -= int64(n)
	if s.left <= 0 {
		fmt.Println(`{"stopped":true}`)
		if err := syscall.Kill(syscall.Getpid(), syscall.SIGSTOP); err != nil {
			return n, err
		}
	}
	return n, err
}
