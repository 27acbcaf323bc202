#!/usr/bin/env python3
import os

import taipan

count = 0
while taipan.accept():
    count += 1
    print("Content-Type: text/plain\r\n\r\nHello!")
    print('This is request %d, with the query "%s".' % (count, os.environ.get("QUERY_STRING", "")))
