package jailer

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Encodings of bytes inside a document.
const (
	EncodingUTF8   = "utf-8"
	EncodingBase64 = "base64"
)

// EncodeText makes a JSON string of data: as it is when it is valid UTF-8,
// base64 otherwise, since JSON can't hold other bytes.
func EncodeText(data []byte) (text, encoding string) {
	if utf8.Valid(data) {
		return string(data), EncodingUTF8
	}
	return base64.StdEncoding.EncodeToString(data), EncodingBase64
}

// DecodeText is the reverse of EncodeText; "" as encoding means UTF-8.
func DecodeText(text, encoding string) ([]byte, error) {
	switch encoding {
	case "", EncodingUTF8:
		return []byte(text), nil
	case EncodingBase64:
		// encoding/base64 skips line breaks; two texts for the same bytes are
		// one too many.
		if strings.ContainsAny(text, "\r\n") {
			return nil, errors.New("line break in base64")
		}
		return base64.StdEncoding.Strict().DecodeString(text)
	}
	return nil, fmt.Errorf("unknown encoding %q (utf-8 or base64)", encoding)
}
