"""Tests of decisions about hosts: values in, values out."""
