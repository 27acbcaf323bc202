#!/bin/sh
printf 'Content-Type: text/plain\r\n\r\n'
echo 'Hello!'
echo "This is request 1, with the query \"$QUERY_STRING\"."
