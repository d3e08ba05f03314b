package limits

import (
	"bytes"
	"fmt"
)

// MarshalJSON writes the given fields with the names and units of documents, in
// the order of Fields.
func (l Limits) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for _, f := range fields {
		v := f.Get(l)
		if v == 0 {
			continue
		}
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%q:%d", f.JSON, f.ToJSON(v))
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}
