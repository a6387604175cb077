#!/bin/sh
exec python words.py
