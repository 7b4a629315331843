package main

import (
	"net"
	"strconv"
	"strings"
	"sync"
)

// frames is a channel that notes the size of each frame: Go's mux returns exactly one per Read.
type frames struct {
	net.Conn
	lock  sync.Mutex
	sizes []string
}

func (f *frames) Read(p []byte) (int, error) {
	n, err := f.Conn.Read(p)
	if err == nil {
		f.lock.Lock()
		f.sizes = append(f.sizes, strconv.Itoa(n))
		f.lock.Unlock()
	}
	return n, err
}

// take returns the sizes of the frames that came since it was last asked, in the order of their arrival.
func (f *frames) take() string {
	f.lock.Lock()
	defer f.lock.Unlock()
	sizes := strings.Join(f.sizes, " ")
	f.sizes = nil
	return sizes
}
