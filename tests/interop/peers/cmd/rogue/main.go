// Command rogue answers the calls it gets on channel 1 with the request's payload, and with messages that nobody asked for.
//
//	rogue MODE
//
// The multiplexer below it is Go's and in order; what goes wrong is ttrpc.
package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"flag"
	"io"
	"log"

	"github.com/containerd/nri/pkg/net/multiplex"
	"github.com/containerd/ttrpc"
	"google.golang.org/protobuf/proto"

	"peers/trunk"
)

// largest is the longest message that ttrpc allows.
const largest = 4 << 20

const (
	request  = 1
	response = 2
	data     = 3
)

// modes say what is written for a request, each element as one frame.
var modes = map[string]func(id uint32, payload []byte) [][]byte{
	"honest": func(id uint32, payload []byte) [][]byte {
		return [][]byte{reply(id, payload)}
	},
	"twice": func(id uint32, payload []byte) [][]byte {
		return [][]byte{reply(id, payload), reply(id, payload)}
	},
	// Replies to calls that were not made, each in its frame and all in one.
	"strangers": func(id uint32, payload []byte) [][]byte {
		strangers := [][]byte{reply(id+2, nil), reply(id+1, nil), reply(0, nil), reply(1<<32-1, payload)}
		return append(strangers, join(append(strangers, reply(id, payload))...))
	},
	// Every kind of message, with every kind of flag, for a call that was not made.
	"kinds": func(id uint32, payload []byte) [][]byte {
		var messages [][]byte
		for _, kind := range []byte{0, request, data, 4, 255} {
			for flags := range 256 {
				messages = append(messages, message(0, id+2, kind, byte(flags), nil))
			}
		}
		return [][]byte{join(messages...), reply(id, payload)}
	},
	// A message of a stream, where a reply is owed; the reply follows.
	"data": func(id uint32, payload []byte) [][]byte {
		return [][]byte{message(len(payload), id, data, 0, payload), reply(id, payload)}
	},
	"bytewise": func(id uint32, payload []byte) [][]byte {
		var bytes [][]byte
		for _, b := range reply(id, payload) {
			bytes = append(bytes, []byte{b})
		}
		return bytes
	},
	// Empty frames before, inside and after a reply.
	"hollow": func(id uint32, payload []byte) [][]byte {
		whole := reply(id, payload)
		return [][]byte{{}, whole[:3], {}, whole[3:10], {}, {}, whole[10:], {}}
	},
	"malformed": func(id uint32, _ []byte) [][]byte {
		return [][]byte{message(3, id, response, 0, []byte{0xff, 0xff, 0xff})}
	},
	// One byte more than allowed, all of them sent, and then the reply.
	"oversized": func(id uint32, payload []byte) [][]byte {
		return [][]byte{
			message(largest+1, id+2, response, 0, make([]byte, largest)), {0},
			reply(id, payload),
		}
	},
	// The reply itself has one byte more than allowed.
	"oversized-reply": func(id uint32, _ []byte) [][]byte {
		return [][]byte{message(largest+1, id, response, 0, make([]byte, largest)), {0}}
	},
	// A length of 4 GiB, and nothing of it.
	"boaster": func(id uint32, _ []byte) [][]byte {
		return [][]byte{message(1<<32-1, id, response, 0, nil)}
	},
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("rogue: ")

	mux := multiplex.Multiplex(trunk.Open(), multiplex.WithBlockedRead())
	answer, ok := modes[flag.Arg(0)]
	if !ok {
		log.Fatalf("unknown mode %q", flag.Arg(0))
	}
	conn, err := mux.Open(multiplex.PluginServiceConn)
	if err != nil {
		log.Fatal(err)
	}
	mux.Unblock()

	// Go's mux wants room for a whole frame in each Read.
	reader := bufio.NewReaderSize(conn, largest+10)
	for {
		id, payload, err := receive(reader)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			log.Fatal(err)
		}
		for _, frame := range answer(id, payload) {
			if _, err := conn.Write(frame); err != nil {
				log.Fatal(err)
			}
		}
	}
}

// receive reads one request and returns its stream id and its payload.
func receive(reader io.Reader) (uint32, []byte, error) {
	var header [10]byte
	if _, err := io.ReadFull(reader, header[:]); err != nil {
		return 0, nil, err
	}
	envelope := make([]byte, binary.BigEndian.Uint32(header[:4]))
	if _, err := io.ReadFull(reader, envelope); err != nil {
		return 0, nil, err
	}
	var request ttrpc.Request
	if err := proto.Unmarshal(envelope, &request); err != nil {
		return 0, nil, err
	}
	return binary.BigEndian.Uint32(header[4:8]), request.Payload, nil
}

func reply(id uint32, payload []byte) []byte {
	envelope, err := proto.Marshal(&ttrpc.Response{Payload: payload})
	if err != nil {
		log.Fatal(err)
	}
	return message(len(envelope), id, response, 0, envelope)
}

// message is a ttrpc message that claims a length, whatever its body has.
func message(length int, id uint32, kind, flags byte, body []byte) []byte {
	bytes := binary.BigEndian.AppendUint32(nil, uint32(length))
	bytes = binary.BigEndian.AppendUint32(bytes, id)
	return append(append(bytes, kind, flags), body...)
}

func join(messages ...[]byte) []byte {
	var whole []byte
	for _, message := range messages {
		whole = append(whole, message...)
	}
	return whole
}
