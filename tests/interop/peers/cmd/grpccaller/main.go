// grpccaller calls methods over gRPC, as containerd would: a line of JSON each on standard input, an answer for each on
// standard output. Requests and answers are messages whose first field is a text.
package main

import (
	"context"
	"encoding/json"
	"io"
	"log"
	"os"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

type question struct {
	Method string `json:"method"`
	Text   string `json:"text"`
	// The text is repeated so often, if it is not 0.
	Repeat int `json:"repeat"`
	// So many calls are made at once, if it is not 0; all must get the same answer.
	Calls int `json:"calls"`
	// The caller's limit; 10 seconds if it is 0.
	Millis int `json:"millis"`
}

type answer struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Text    string `json:"text"`
}

func main() {
	client, err := grpc.NewClient(os.Args[1], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var asked question
		if err := in.Decode(&asked); err == io.EOF {
			return
		} else if err != nil {
			log.Fatal(err)
		}
		if err := out.Encode(ask(client, asked)); err != nil {
			log.Fatal(err)
		}
	}
}

func ask(client *grpc.ClientConn, asked question) answer {
	answers := make([]answer, max(asked.Calls, 1))
	var calls sync.WaitGroup
	for i := range answers {
		calls.Go(func() { answers[i] = call(client, asked) })
	}
	calls.Wait()
	for _, other := range answers {
		if other != answers[0] {
			log.Fatalf("%v and %v are answers to %v", answers[0], other, asked)
		}
	}
	return answers[0]
}

func call(client *grpc.ClientConn, asked question) answer {
	limit := 10 * time.Second
	if asked.Millis != 0 {
		limit = time.Duration(asked.Millis) * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	request := wrapperspb.String(strings.Repeat(asked.Text, max(asked.Repeat, 1)))
	var response wrapperspb.StringValue
	err := client.Invoke(ctx, asked.Method, request, &response)
	said := status.Convert(err)
	return answer{Code: said.Code().String(), Message: said.Message(), Text: response.GetValue()}
}
