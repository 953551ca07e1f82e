DROP TABLE lanes;
