DROP TABLE key_pepper;
